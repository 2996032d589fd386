"""Simulated devices at a collector's gRPC port: one channel and one stream each."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import grpc
import grpc.aio

from edgesweep.envelope import Ack, WireError, decode_ack

from .line import Caller, LineDown, Passed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from edgesweep.delivery import Parcel

DELIVER = "/edgesweep.v1.Ingest/Deliver"
_CONNECT_WITHIN_S = 20.0
_OPTIONS: tuple[tuple[str, Any], ...] = (
    # Without it all devices would share one connection, as no fleet does.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
)


class GrpcDial:
    """Connects devices to a collector at ``host:port``."""

    def __init__(self, address: str) -> None:
        self._address = address

    @asynccontextmanager
    async def __call__(self, caller: Caller) -> AsyncIterator[GrpcLine]:
        """See :class:`.line.Dial`."""
        async with grpc.aio.insecure_channel(self._address, options=list(_OPTIONS)) as channel:
            deliver = channel.stream_stream(
                DELIVER, request_serializer=_as_is, response_deserializer=_as_is
            )
            call = deliver()
            try:
                with anyio.fail_after(_CONNECT_WITHIN_S):
                    await call.wait_for_connection()
            except TimeoutError as error:
                call.cancel()
                raise LineDown(f"no collector answers at {self._address}") from error
            except grpc.aio.AioRpcError as error:
                raise LineDown(_reason(error)) from error
            line = GrpcLine(call, caller)
            listening = asyncio.create_task(line.listen())
            try:
                yield line
            finally:
                call.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([listening])


class GrpcLine:
    """One live stream."""

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes], caller: Caller) -> None:
        self._call = call
        self._caller = caller
        self._heard: deque[Ack | Passed] = deque()
        self._down: str | None = None

    async def send(self, parcel: Parcel) -> None:
        """Write one envelope; waits while the peer's flow control says so."""
        try:
            await self._call.write(parcel.data)
        except grpc.aio.AioRpcError as error:
            raise LineDown(_reason(error)) from error
        except (grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            raise LineDown("the stream has ended") from error

    def heard(self) -> list[Ack | Passed]:
        """See :class:`.line.Line`."""
        if self._heard:
            found = list(self._heard)
            self._heard.clear()
            return found
        if self._down is not None:
            raise LineDown(self._down)
        return []

    async def listen(self) -> None:
        """Take what comes until the stream ends."""
        why = "the stream was ended"
        try:
            async for data in self._call:
                self._heard.append(decode_ack(data))
                self._caller.wake()
        except grpc.aio.AioRpcError as error:
            why = _reason(error)
        except WireError as error:
            why = f"the collector sent what is no ack: {error}"
        except asyncio.CancelledError:
            pass  # of the call, by ourselves
        self._down = why
        self._caller.wake()


def _as_is(data: bytes) -> bytes:
    return data


def _reason(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name.lower()}: {error.details()}"
