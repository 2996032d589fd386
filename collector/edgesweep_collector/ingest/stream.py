"""One device's gRPC stream: what was read from it and is not answered yet, and its acks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from edgesweep.envelope import Ack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from edgesweep_collector.counters import Counters
    from edgesweep_collector.peers import Peer

    from .accept import Acceptor

# Acks that a stream holds for a device that does not read them.
_ACKS = 1024


class Stream:
    """A stream between its first byte and its last ack.

    Attributes:
        peer: Who sends, by certificate; ``None`` without TLS, when anyone may speak for anyone.
        denied: Why it was ended by :meth:`deny`.
    """

    def __init__(self, counters: Counters, peer: Peer | None) -> None:
        self.peer = peer
        self.denied: str | None = None
        self._counters = counters
        self._out, self.acks = anyio.create_memory_object_stream[Ack](_ACKS)
        self._reading = anyio.CancelScope()
        self._unanswered = 0
        self._ended = False

    async def read(self, requests: AsyncIterator[bytes], acceptor: Acceptor) -> None:
        """Hand in what comes until the device or the server ends it."""
        identity = None if self.peer is None else self.peer.common_name
        with self._reading:
            async for raw in requests:
                self._unanswered += 1
                await acceptor.submit(raw, identity, "grpc", self.reply, self._settled)
        self._ended = True
        self._end_if_answered()

    def read_no_more(self) -> None:
        """Let the stream end once everything that was taken is answered."""
        self._reading.cancel()

    def deny(self, reason: str) -> None:
        """End the stream now. What is not answered stays with the device."""
        self.denied = reason
        self._out.close()

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
