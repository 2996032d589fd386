"""The gRPC transport: ``edgesweep.v1.Ingest.Deliver``, one long stream per device."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
import grpc
import grpc.aio

from edgesweep.envelope import Ack, encode_ack
from edgesweep_collector.errors import ListenError, SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from edgesweep_collector.counters import Counters
    from edgesweep_collector.settings import Listen

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
# Acks that a stream holds for a device that does not read them.
_ACKS = 1024


class GrpcIngest:
    """A ``grpc.aio`` server whose streams hand the very bytes they receive to the acceptor.

    Args:
        acceptor: Where envelopes go.
        counters: What is counted.
        listen: The address; without TLS it must be a loopback address.

    Raises:
        SettingsError: any other address, since identities could then be forged.
    """

    def __init__(self, acceptor: Acceptor, counters: Counters, listen: Listen) -> None:
        if not listen.is_loopback:
            raise SettingsError(
                f"grpc.listen: {listen} is not a loopback address, and without TLS anyone who "
                "reaches it could speak for any device; listen on 127.0.0.1"
            )
        self._acceptor = acceptor
        self._counters = counters
        self._listen = listen
        self._streams: set[_Stream] = set()
        self._server: grpc.aio.Server | None = None

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
            port = server.add_insecure_port(str(self._listen))
        except RuntimeError as error:
            await server.stop(None)
            raise ListenError(f"grpc.listen: cannot bind {self._listen}: {error}") from error
        await server.start()
        self._server = server
        _log.info("grpc listens", extra={"host": self._listen.host, "port": port})

    async def stop(self) -> None:
        """Refuse new streams, let the open ones end with their acks, and close."""
        if self._server is None:
            return
        for stream in self._streams:
            stream.read_no_more()
        await self._server.stop(_STOP_WITHIN_S)
        self._server = None

    def health(self) -> str | None:
        """``None`` while it serves."""
        return None if self._server is not None else "not listening"

    async def _deliver(
        self,
        requests: AsyncIterator[bytes],
        context: grpc.aio.ServicerContext[bytes, bytes],
    ) -> None:
        stream = _Stream(self._counters)
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


class _Stream:
    """One device's stream: what was read from it and is not answered yet, and its acks."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._out, self.acks = anyio.create_memory_object_stream[Ack](_ACKS)
        self._reading = anyio.CancelScope()
        self._unanswered = 0
        self._ended = False

    async def read(self, requests: AsyncIterator[bytes], acceptor: Acceptor) -> None:
        """Hand in what comes until the device or the server ends it."""
        with self._reading:
            async for raw in requests:
                self._unanswered += 1
                # No identity: without TLS there is no certificate that would name the sender.
                await acceptor.submit(raw, None, "grpc", self.reply, self._settled)
        self._ended = True
        self._end_if_answered()

    def read_no_more(self) -> None:
        """Let the stream end once everything that was taken is answered."""
        self._reading.cancel()

    def reply(self, ack: Ack) -> None:
        """Queue an ack. A device that reads none loses some: it sends again what it missed."""
        try:
            self._out.send_nowait(ack)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._counters.dropped_acks.inc()

    def close(self) -> None:
        """Free the queue; acks that come later are dropped."""
        self._out.close()
        self.acks.close()

    def _settled(self) -> None:
        self._unanswered -= 1
        self._end_if_answered()

    def _end_if_answered(self) -> None:
        if self._ended and self._unanswered == 0:
            self._out.close()
