"""The uplink over gRPC: one long stream of envelopes up and acks down."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import grpc
import grpc.aio

from edgesweep.envelope import Ack, WireError, decode_ack

from .base import UplinkDown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from edgesweep.delivery import Parcel

DELIVER = "/edgesweep.v1.Ingest/Deliver"

_OPTIONS = (
    # A dead NAT entry is noticed within 40 s; the collector allows pings this often
    # (grpc/grpc#14717: a server's own default of 300 s answers them with GOAWAY).
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Reconnecting is the delivery machine's decision; the channel must not sit out its own.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_retries", 0),
)


class GrpcLink:
    """One live stream. The bytes sent are the spooled bytes, untouched."""

    trouble = ""

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        self._call = call

    async def send(self, parcel: Parcel) -> None:
        """Write one envelope; waits while the peer's flow control says so."""
        try:
            await self._call.write(parcel.data)
        except grpc.aio.AioRpcError as error:
            raise UplinkDown(_reason(error)) from error
        except grpc.aio.UsageError as error:
            raise UplinkDown("the stream has ended") from error

    async def acks(self) -> AsyncIterator[Ack]:
        """Acks until the stream ends."""
        try:
            async for data in self._call:
                yield decode_ack(data)
        except grpc.aio.AioRpcError as error:
            raise UplinkDown(_reason(error)) from error
        except WireError as error:
            raise UplinkDown(f"the collector sent what is no ack: {error}") from error


class GrpcUplink:
    """A collector at ``address`` (``host:port``), without TLS: for loopback only."""

    name = "grpc"

    def __init__(self, address: str, *, connect_timeout_s: float = 10.0) -> None:
        self._address = address
        self._connect_timeout_s = connect_timeout_s

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[GrpcLink]:
        """Open the channel and the stream; both are closed on leaving."""
        options: list[tuple[str, Any]] = list(_OPTIONS)
        async with grpc.aio.insecure_channel(self._address, options=options) as channel:
            deliver = channel.stream_stream(
                DELIVER, request_serializer=_as_is, response_deserializer=_as_is
            )
            call = deliver()
            try:
                await _connected(call, self._address, self._connect_timeout_s)
                yield GrpcLink(call)
            finally:
                call.cancel()


async def _connected(call: Any, address: str, timeout_s: float) -> None:
    try:
        with anyio.fail_after(timeout_s):
            await call.wait_for_connection()
    except TimeoutError as error:
        raise UplinkDown(f"no collector answers at {address} within {timeout_s:g} s") from error
    except grpc.aio.AioRpcError as error:
        raise UplinkDown(_reason(error)) from error


def _as_is(data: bytes) -> bytes:
    return data


def _reason(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name.lower()}: {error.details()}"
