"""The gRPC transport: ``edgesweep.v1.Ingest.Deliver``, one long stream per device.

With TLS a device is who its certificate says, and an envelope of another device is refused.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import anyio
import grpc
import grpc.aio

from edgesweep.envelope import encode_ack
from edgesweep_collector.errors import ListenError, SettingsError
from edgesweep_collector.peers import Denylist
from edgesweep_collector.tls import Renewable, Role, grpc_credentials

from .admission import Admission, peer_of_stream
from .stream import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from edgesweep_collector.counters import Counters
    from edgesweep_collector.settings import Listen, TlsSettings

    from .accept import Acceptor

_log = logging.getLogger(__name__)

_SERVICE = "edgesweep.v1.Ingest"
# gRPC-core counts pings that come sooner than its own minimum (300 s by default) and then cuts
# the line with "too_many_pings" (grpc/grpc#9902, #14717). Agents ping every 30 s, idle or not.
_OPTIONS = (
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 20_000),
    # The other way: a device that vanished without a word frees its stream.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_receive_message_length", 1024 * 1024),
    # Two collectors on one port are a mistake, not a way to share it.
    ("grpc.so_reuseport", 0),
)
_STOP_WITHIN_S = 1.5
# How soon a stream ends that is not to go on: its certificate was denied, or has run out.
_LOOK_S = 1.0


class GrpcIngest:
    """A ``grpc.aio`` server whose streams hand the very bytes they receive to the acceptor.

    Args:
        acceptor: Where envelopes go.
        counters: What is counted.
        listen: The address; without TLS it must be a loopback address.
        tls: Who we are, whose certificates are taken, and whose are denied.

    Raises:
        SettingsError: any other address without TLS, since identities could then be forged; or a
            file of ``tls`` is of no use.
    """

    def __init__(
        self,
        acceptor: Acceptor,
        counters: Counters,
        listen: Listen,
        tls: TlsSettings | None = None,
    ) -> None:
        if tls is None and not listen.is_loopback:
            raise SettingsError(
                f"grpc.listen: {listen} is not a loopback address, and without TLS anyone who "
                "reaches it could speak for any device; set [grpc.tls], or listen on 127.0.0.1"
            )
        self._acceptor = acceptor
        self._counters = counters
        self._listen = listen
        self._files = None if tls is None else Renewable(tls, "grpc.tls", Role.SERVER)
        if self._files is not None:
            counters.certificate_expires.labels("grpc.tls").set_function(self._files.expires_s)
        denylist_file = None if tls is None else tls.denylist_file
        self._admission = Admission(Denylist(denylist_file, "grpc.tls.denylist_file"))
        self._streams: set[Stream] = set()
        self._server: grpc.aio.Server | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Bind the address and serve.

        Raises:
            ListenError: it cannot be bound.
        """
        server = grpc.aio.server(options=_OPTIONS)
        # No (de)serialisers: the archive keeps the bytes that came, not what we would make of them.
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self._deliver
        )
        handler = grpc.method_handlers_generic_handler(_SERVICE, {"Deliver": method})
        server.add_generic_rpc_handlers((handler,))
        try:
            port = self._bind(server)
        except RuntimeError as error:
            await server.stop(None)
            raise ListenError(f"grpc.listen: cannot bind {self._listen}: {error}") from error
        await server.start()
        self._server = server
        if self._files is not None:
            self._looking = asyncio.create_task(self._look())
        _log.info("grpc listens", extra={"host": self._listen.host, "port": port})

    async def stop(self) -> None:
        """Refuse new streams, let the open ones end with their acks, and close."""
        if self._server is None:
            return
        if self._looking is not None:
            self._looking.cancel()
        for stream in self._streams:
            stream.read_no_more()
        await self._server.stop(_STOP_WITHIN_S)
        self._server = None

    def health(self) -> str | None:
        """``None`` while it serves with a certificate that devices can take."""
        if self._server is None:
            return "not listening"
        return self._files.problem() if self._files else None

    def _bind(self, server: grpc.aio.Server) -> int:
        if self._files is None:
            return server.add_insecure_port(str(self._listen))
        return server.add_secure_port(str(self._listen), grpc_credentials(self._files))

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for stream in self._streams:
                objection = self._admission.objection(stream.peer) if stream.peer else None
                if objection is not None and stream.denied is None:
                    stream.deny(objection)

    async def _deliver(
        self,
        requests: AsyncIterator[bytes],
        context: grpc.aio.ServicerContext[bytes, bytes],
    ) -> None:
        peer = peer_of_stream(context.auth_context())
        objection = self._admission.objection(peer) if peer else None
        if objection is None:
            objection = await self._serve(Stream(self._counters, peer), requests, context)
        if objection is not None:
            _log.warning("refused a device", extra={"why": objection, "from": context.peer()})
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, objection)

    async def _serve(
        self,
        stream: Stream,
        requests: AsyncIterator[bytes],
        context: grpc.aio.ServicerContext[bytes, bytes],
    ) -> str | None:
        """Serve a stream to its end, and say why it was ended, if it was denied."""
        self._streams.add(stream)
        try:
            # Without this a client would not learn that it is connected before its first ack.
            await context.send_initial_metadata(())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream.read, requests, self._acceptor)
                async for ack in stream.acks:
                    await context.write(encode_ack(ack))
                tasks.cancel_scope.cancel()
        finally:
            self._streams.discard(stream)
            stream.close()
        return stream.denied
