"""The uplink over gRPC: one long stream of envelopes up and acks down."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import grpc
import grpc.aio

from edgesweep.envelope import Ack, WireError, decode_ack
from edgesweep_agent.errors import SettingsError

from .base import UplinkDown
from .statuses import ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from ssl import SSLContext

    from edgesweep.delivery import Parcel
    from edgesweep_agent.settings import GrpcSettings

    from .base import Told
    from .identity import Identity

DELIVER = "/edgesweep.v1.Ingest/Deliver"

_PUSHBACK = "grpc-retry-pushback-ms"
_STATUS_S = 0.05


@dataclass(frozen=True, slots=True)
class Pace:
    """Times of the transport, in seconds.

    Attributes:
        keepalive_s: A line that is silent for so long is asked whether it lives. The collector
            allows that (grpc/grpc#14717: a server's own default of 300 s answers with GOAWAY).
        keepalive_timeout_s: How long the answer may take: a dead NAT entry is noticed in 40 s.
        accept_s: How long it may take until the collector has accepted the stream.
        max_age_s: A stream is made anew at about this age, since streams leak
            (grpc/grpc#43360).
    """

    keepalive_s: float = 30.0
    keepalive_timeout_s: float = 10.0
    accept_s: float = 10.0
    max_age_s: float = 900.0

    def options(self) -> list[tuple[str, Any]]:
        """The channel's."""
        return [
            ("grpc.keepalive_time_ms", round(1000 * self.keepalive_s)),
            ("grpc.keepalive_timeout_ms", round(1000 * self.keepalive_timeout_s)),
            # What really ends a line whose ping is not answered: a minute, if nobody says less.
            ("grpc.http2.ping_timeout_ms", round(1000 * self.keepalive_timeout_s)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            # Reconnecting is the delivery machine's decision; the channel must not sit out its own.
            ("grpc.initial_reconnect_backoff_ms", 500),
            ("grpc.max_reconnect_backoff_ms", 2_000),
            ("grpc.enable_retries", 0),
            # A subchannel that others share would outlive its channel, with its back-off.
            ("grpc.use_local_subchannel_pool", 1),
        ]


class GrpcLink:
    """One live stream. The bytes sent are the spooled bytes, untouched.

    Args:
        call: The stream, which is up.
        lasts_s: When it is to be made anew.
        limit_bytes: What the other side is known to take.
    """

    trouble = None

    def __init__(
        self,
        call: grpc.aio.StreamStreamCall[bytes, bytes],
        lasts_s: float,
        limit_bytes: Callable[[], int | None],
    ) -> None:
        self.lasts_s: float | None = lasts_s
        self._call = call
        self._limit_bytes = limit_bytes

    def limit_bytes(self, _parcel: Parcel) -> int | None:
        """How large an envelope may be, once the other side has refused one."""
        return self._limit_bytes()

    async def send(self, parcel: Parcel) -> None:
        """Write one envelope; waits while the peer's flow control says so."""
        try:
            await self._call.write(parcel.data)
        except grpc.aio.AioRpcError as error:
            raise _down(error) from error
        except (grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            # What ended it is told by the acks.
            await self._raise_end()
            raise UplinkDown("the stream has ended") from error

    async def words(self) -> AsyncIterator[Ack]:
        """Acks until the stream ends."""
        try:
            async for data in self._call:
                yield decode_ack(data)
        except grpc.aio.AioRpcError as error:
            raise _down(error) from error
        except WireError as error:
            raise UplinkDown(f"the collector sent what is no ack: {error}") from error

    async def finish(self) -> None:
        """Close our side: the collector answers what it has, and closes its own."""
        await self._call.done_writing()

    async def _raise_end(self) -> None:
        try:
            await self._call.wait_for_connection()
        except grpc.aio.AioRpcError as error:
            raise _down(error) from error


class GrpcUplink:
    """A collector, reached directly. Without TLS: for loopback only.

    Args:
        settings: Where it is.
        device_id: Whom our certificate names.
        pace: How patient it is.
        jitter: Gives uniform numbers in [0, 1).

    Raises:
        SettingsError: with TLS, the address is no ``host:port``.
    """

    name = "grpc"
    conflict = None

    def __init__(
        self,
        settings: GrpcSettings,
        device_id: str,
        pace: Pace = Pace(),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._pace = pace
        self._jitter = jitter
        self._limit_bytes: int | None = None
        self._identity = _identity(settings, device_id)

    @property
    def trouble(self) -> Told | None:
        """A new certificate that is of no use."""
        return self._identity.trouble if self._identity else None

    async def renewed(self) -> bool:
        """Whether another certificate is on the disk, which the collector takes."""
        if self._identity is None:
            return False
        return await anyio.to_thread.run_sync(self._identity.renewed)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[GrpcLink]:
        """Open the channel and the stream; both are closed on leaving."""
        async with await self._channel() as channel:
            deliver = channel.stream_stream(
                DELIVER, request_serializer=_as_is, response_deserializer=_as_is
            )
            call = deliver()
            try:
                await self._accepted(call)
                lasts_s = self._pace.max_age_s * (0.9 + 0.2 * self._jitter())
                yield GrpcLink(call, lasts_s, lambda: self._limit_bytes)
            except UplinkDown as down:
                if down.too_large is not None:
                    self._limit_bytes = down.too_large.limit_bytes or self._limit_bytes
                raise
            finally:
                call.cancel()

    async def _channel(self) -> grpc.aio.Channel:
        options = self._pace.options()
        if self._identity is None:
            return grpc.aio.insecure_channel(self._settings.address, options=options)
        credentials = await anyio.to_thread.run_sync(self._identity.load)
        tls = self._settings.tls
        if tls is not None and tls.server_name is not None:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        return grpc.aio.secure_channel(self._settings.address, credentials, options=options)

    async def _accepted(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        """Wait for the collector's first word, which it says when it takes the stream.

        That the connection stands tells little: so does one to a proxy with nobody behind it.
        """
        try:
            with anyio.fail_after(self._pace.accept_s):
                await call.initial_metadata()
                # A refusal looks like an acceptance until its status is here as well.
                with anyio.move_on_after(_STATUS_S):
                    await call.code()
                await call.wait_for_connection()
        except TimeoutError as error:
            where, within_s = self._settings.address, self._pace.accept_s
            raise UplinkDown(f"no collector answers at {where} within {within_s:g} s") from error
        except grpc.aio.AioRpcError as error:
            why = None
            if self._identity is not None and error.code() is grpc.StatusCode.UNAVAILABLE:
                why = await anyio.to_thread.run_sync(self._identity.why)
            raise why or _down(error) from error


def _identity(settings: GrpcSettings, device_id: str) -> Identity[grpc.ChannelCredentials] | None:
    if settings.tls is None:
        return None
    # Imported late: a site without TLS need not have them in memory.
    from edgesweep_agent import tls  # noqa: PLC0415

    from .identity import Identity  # noqa: PLC0415

    host, _, port = settings.address.rpartition(":")
    if not port.isdecimal():
        raise SettingsError(f"uplink.address: {settings.address!r} is to be host:port")

    def reach(context: SSLContext) -> None:
        # gRPC refuses whoever does not offer HTTP/2.
        tls.probe(host.strip("[]"), int(port), context, protocols=("h2",))

    return Identity(settings.tls, device_id, tls.grpc_credentials, reach)


def _as_is(data: bytes) -> bytes:
    return data


def _down(error: grpc.aio.AioRpcError) -> UplinkDown:
    pushback = next((str(v) for k, v in error.trailing_metadata() or () if k == _PUSHBACK), None)
    return ended(error.code().name, str(error.details()), pushback)
