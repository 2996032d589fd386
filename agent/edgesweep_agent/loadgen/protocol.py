"""One HTTP exchange on the wire: bytes out, instants and bytes in. Nothing is interpreted here."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

import httptools

from edgesweep_agent.core.exchange import Ending, Exchange

if TYPE_CHECKING:
    from .job import LevelJob

_SECOND_NS = 1_000_000_000
_FINAL_STATUS = 200
"""Lower ones are interim responses (RFC 9110, 15.2); the real one follows."""


class Flight:
    """A request under way; the parser calls its ``on_`` methods.

    What is read is parsed a turn of the loop later, when every other connection that was ready
    has been read too: parsing takes longer than reading, and 128 connections that have
    something at once would otherwise wait for each other before they take their time.

    Attributes:
        t_last_ns: When something was last heard, or the request was sent.
        done: Resolved once ``ending`` is set.
        reusable: The server will take another request on this connection.
    """

    def __init__(self, index: int, t_sched_ns: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.ending: Ending | None = None
        self.reusable = False
        self.t_last_ns = 0
        self._index = index
        self._t_sched_ns = t_sched_ns
        self._t_send_ns: int | None = None
        self._t_headers_ns: int | None = None
        self._t_end_ns = 0
        self._status: int | None = None
        self._headers: list[tuple[str, str]] = []
        self._unparsed: list[tuple[int, bytes]] = []
        self._t_parsed_ns = 0
        self._pieces: list[tuple[int, bytes]] = []
        self._error = ""
        self._parser = httptools.HttpResponseParser(self)

    def sending(self, t_ns: int) -> None:
        """The request's bytes are about to be written."""
        self._t_send_ns = self.t_last_ns = t_ns

    def receive(self, t_ns: int, data: bytes) -> None:
        """Bytes came in."""
        self.t_last_ns = t_ns
        if not self._unparsed:
            self._loop.call_soon(self._parse)
        self._unparsed.append((t_ns, data))

    def finish(self, ending: Ending, t_ns: int, error: str = "") -> None:
        """Ends the flight, unless what was read before has ended it."""
        self._parse()
        self._end(ending, t_ns, error)

    def _parse(self) -> None:
        unparsed, self._unparsed = self._unparsed, []
        for t_ns, data in unparsed:
            # What follows the end of the message is no longer ours.
            if self.ending:
                return
            self._t_parsed_ns = t_ns
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                self._end("malformed", t_ns, str(error) or type(error).__name__)

    def _end(self, ending: Ending, t_ns: int, error: str = "") -> None:
        if self.ending:
            return
        self.ending, self._t_end_ns, self._error = ending, t_ns, error
        if not self.done.done():
            self.done.set_result(None)

    def exchange(self) -> Exchange:
        """The finished exchange."""
        # The parser and this object hold each other, and nobody collects cycles during a level.
        del self._parser
        return Exchange(
            index=self._index,
            t_sched_ns=self._t_sched_ns,
            t_send_ns=self._t_send_ns,
            t_headers_ns=self._t_headers_ns,
            status=self._status,
            headers=tuple(self._headers),
            pieces=tuple(self._pieces),
            t_end_ns=self._t_end_ns,
            ending=self.ending or "cancelled",
            error=self._error,
        )

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which nobody needs."""
        if self._status is None:
            self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """The header block is complete, perhaps that of an interim response."""
        status = int(self._parser.get_status_code())
        if status < _FINAL_STATUS:
            self._headers.clear()
            return
        self._status, self._t_headers_ns = status, self._t_parsed_ns

    def on_body(self, body: bytes) -> None:
        """Body bytes, chunk framing removed."""
        self._pieces.append((self._t_parsed_ns, body))

    def on_message_complete(self) -> None:
        """The message came whole, unless it was an interim one."""
        if self._status is not None:
            self.reusable = bool(self._parser.should_keep_alive())
            self._end("complete", self._t_parsed_ns)


class Connection(asyncio.Protocol):
    """One connection, carrying one exchange at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._flight: Flight | None = None

    @property
    def usable(self) -> bool:
        """Still open at both ends, as far as can be known."""
        return self._transport is not None and not self._transport.is_closing()

    async def perform(self, flight: Flight, request: bytes, job: LevelJob) -> None:
        """Sends the request and waits for the flight to end, whichever way it does.

        A cancelled wait leaves the flight ended too.
        """
        timer = _Timer(flight, job)
        self._flight = flight
        flight.sending(time.monotonic_ns())
        if self._transport is None or self._transport.is_closing():
            flight.finish("eof", time.monotonic_ns())
        else:
            self._transport.write(request)
        timer.start()
        try:
            await flight.done
        except asyncio.CancelledError:
            flight.finish("cancelled", time.monotonic_ns())
            raise
        finally:
            timer.stop()
            self._flight = None

    async def close(self) -> None:
        """Gives the connection up, and returns when its socket is closed.

        Aborting spares the wait for a peer's goodbye; nothing is left to be sent.
        """
        if self._transport is not None:
            self._transport.abort()
            await self._closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Takes the time before anything else: everything measured rests on it."""
        t_ns = time.monotonic_ns()
        if self._flight is not None:
            self._flight.receive(t_ns, data)

    def eof_received(self) -> None:
        """The server is done sending; so are we."""
        if self._flight is not None:
            self._flight.finish("eof", time.monotonic_ns())

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, in good order or not."""
        if self._flight is not None:
            ending: Ending = "eof" if exc is None else "reset"
            self._flight.finish(ending, time.monotonic_ns(), str(exc or ""))
        self._transport = None
        if not self._closed.done():
            self._closed.set_result(None)


class _Timer:
    """Ends a flight that takes too long, or is silent for too long."""

    def __init__(self, flight: Flight, job: LevelJob) -> None:
        self._flight = flight
        self._whole_s = job.request_timeout_s
        self._idle_s = job.idle_timeout_s
        self._handle: asyncio.TimerHandle | None = None
        self._t_whole_ns = 0

    def start(self) -> None:
        self._t_whole_ns = self._flight.t_last_ns + round(self._whole_s * _SECOND_NS)
        self._check()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _check(self) -> None:
        """Rather than being moved at each read, it looks again when the last read is old."""
        now_ns = time.monotonic_ns()
        until_ns, error = self._t_whole_ns, f"not done within {self._whole_s:g} s"
        if self._idle_s is not None:
            t_idle_ns = self._flight.t_last_ns + round(self._idle_s * _SECOND_NS)
            if t_idle_ns < until_ns:
                until_ns, error = t_idle_ns, f"silent for {self._idle_s:g} s"
        if now_ns >= until_ns:
            self._flight.finish("timeout", now_ns, error)
        else:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_later((until_ns - now_ns) / _SECOND_NS, self._check)
