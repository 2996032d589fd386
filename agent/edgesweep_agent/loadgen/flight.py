"""One HTTP exchange on the wire: bytes out, instants and bytes in. Nothing is interpreted here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httptools

from edgesweep_agent.core.exchange import Ending, Exchange

_FINAL_STATUS = 200
"""Lower ones are interim responses (RFC 9110, 15.2); the real one follows."""
_HTTP_OK = 200
_DONE = tuple(
    field + b"[DONE]" + end
    for field in (b"data: ", b"data:")
    for end in (b"\n\n", b"\r\n\r\n", b"\n", b"\r\n", b"\r\r", b"\r")
)
"""The end of a stream; a line end that follows it cannot stand within a JSON string."""
_LINGER_S = 0.05
"""For a server to end its message after it has ended its stream; one that holds the connection
open would otherwise hold up the loop, and its throughput would be that of its timeouts."""
MOST_BYTES = 32 << 20
"""Of one answer: a server that never stops would take the memory of the box."""
MOST_HEADER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request stands in its level: what an ``Exchange`` says of it."""

    index: int
    track: int = 0
    chain: int = -1
    step: int = -1


class Flight:
    """A request under way; the parser calls its ``on_`` methods.

    What is read is parsed later. While a chunked or an unframed body comes, nothing depends on
    it until what may be the end of the message has been read (or nobody has looked for 0.2 s, see
    ``Pulse``); and then a turn of the loop later, when every other connection that was ready has
    been read too, since parsing takes longer than reading.

    Attributes:
        shelf: Takes reads that may wait (:class:`.selector.Reader`).
        t_end_ns: When it was over.
        done: Resolved once ``ending`` is set.
        reusable: The server will take another request on this connection.
    """

    def __init__(self, place: Place, t_sched_ns: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.ending: Ending | None = None
        self.reusable = False
        self.shelf: list[tuple[int, bytes]] | None = None
        self.t_end_ns = 0
        self._place = place
        self._t_sched_ns = t_sched_ns
        self._t_send_ns: int | None = None
        self._t_headers_ns: int | None = None
        self._status: int | None = None
        self._headers: list[tuple[str, str]] = []
        self._t_seen_ns = 0
        self._unparsed: list[tuple[int, bytes]] = []
        self._t_parsed_ns = 0
        self._pieces: list[tuple[int, bytes]] = []
        self._room = MOST_BYTES
        self._header_room = MOST_HEADER_BYTES
        self._lingering: asyncio.TimerHandle | None = None
        self._error = ""
        self._between_chunks = False
        self._parser = httptools.HttpResponseParser(self)

    def sending(self, t_ns: int) -> None:
        """The request's bytes are about to be written."""
        self._t_send_ns = self._t_seen_ns = t_ns

    @property
    def t_last_ns(self) -> int:
        """When something was last heard, or the request was sent."""
        return self._unparsed[-1][0] if self._unparsed else self._t_seen_ns

    def receive(self, t_ns: int, data: bytes) -> bool:
        """Bytes came in that may not wait; the loop must turn, to have them parsed."""
        self._unparsed.append((t_ns, data))
        self._loop.call_soon(self.parse)
        return True

    def broken(self, t_ns: int, error: OSError) -> None:
        """The connection broke under a read."""
        self.finish("reset", t_ns, str(error))

    def finish(self, ending: Ending, t_ns: int, error: str = "") -> None:
        """Ends the flight, unless what was read before has ended it."""
        self.parse()
        self._end(ending, t_ns, error)

    def parse(self) -> None:
        """Parses what has been read."""
        unparsed = self._unparsed.copy()
        self._unparsed.clear()
        for t_ns, data in unparsed:
            # What follows the end of the message is no longer ours.
            if self.ending:
                return
            self._t_parsed_ns = self._t_seen_ns = t_ns
            if self._between_chunks and (body := whole_chunk(data)):
                self.on_body(body)
                continue
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                self._end("malformed", t_ns, str(error) or type(error).__name__)
            # The next chunk's size may have begun, but it cannot have ended: that has a callback.
            self._between_chunks &= data[-2:] == b"\r\n"

    def _end(self, ending: Ending, t_ns: int, error: str = "") -> None:
        if self.ending:
            return
        self.ending, self.t_end_ns, self._error = ending, t_ns, error
        if self._lingering is not None:
            self._lingering.cancel()
        if not self.done.done():
            self.done.set_result(None)

    def exchange(self) -> Exchange:
        """The finished exchange."""
        # The parser and this object hold each other, and nobody collects cycles during a level.
        del self._parser
        return Exchange(
            index=self._place.index,
            t_sched_ns=self._t_sched_ns,
            t_send_ns=self._t_send_ns,
            t_headers_ns=self._t_headers_ns,
            status=self._status,
            headers=tuple(self._headers),
            pieces=tuple(self._pieces),
            t_end_ns=self.t_end_ns,
            ending=self.ending or "cancelled",
            error=self._error,
            track=self._place.track,
            chain=self._place.chain,
            step=self._place.step,
        )

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which nobody needs."""
        self._header_room -= len(name) + len(value)
        if self._header_room < 0:
            self._end("malformed", self._t_parsed_ns, f"over {MOST_HEADER_BYTES >> 10} KiB headers")
        elif self._status is None:
            self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """The header block is complete, perhaps that of an interim response."""
        status = int(self._parser.get_status_code())
        if status < _FINAL_STATUS:
            self._headers.clear()
            return
        self._status, self._t_headers_ns = status, self._t_parsed_ns
        if status == _HTTP_OK and all(name != "content-length" for name, _ in self._headers):
            self.shelf = self._unparsed

    def on_chunk_header(self) -> None:
        """A chunk's size has been read: the chunk has begun."""
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        """A chunk has ended."""
        self._between_chunks = True

    def on_body(self, body: bytes) -> None:
        """Body bytes, chunk framing removed."""
        self._room -= len(body)
        if self._room < 0:
            self._end("malformed", self._t_parsed_ns, f"over {MOST_BYTES >> 20} MiB in one answer")
            return
        self._pieces.append((self._t_parsed_ns, body))
        if body.endswith(_DONE) and self._lingering is None:
            self._lingering = self._loop.call_later(
                _LINGER_S, self._end, "complete", self._t_parsed_ns
            )

    def on_message_complete(self) -> None:
        """The message came whole, unless it was an interim one."""
        if self._status is not None:
            self.reusable = bool(self._parser.should_keep_alive())
            self._end("complete", self._t_parsed_ns)


def whole_chunk(data: bytes) -> bytes:
    """The body of a read that is one chunk (RFC 9112, 7.1), as servers write them for a token.

    Between chunks the parser may go without it, and is spared. Empty for anything else: sizes
    written in another way, extensions, the last chunk.
    """
    head = data.find(b"\r\n")
    size = len(data) - head - 4
    if size > 0 and data[:head] == b"%x" % size and data[-2:] == b"\r\n":
        return data[head + 2 : -2]
    return b""


def unsent(place: Place, t_sched_ns: int, t_end_ns: int, ending: Ending, error: str) -> Exchange:
    """An exchange for which no connection came about."""
    return Exchange(
        index=place.index,
        t_sched_ns=t_sched_ns,
        t_send_ns=None,
        t_headers_ns=None,
        status=None,
        headers=(),
        pieces=(),
        t_end_ns=t_end_ns,
        ending=ending,
        error=error,
        track=place.track,
        chain=place.chain,
        step=place.step,
    )
