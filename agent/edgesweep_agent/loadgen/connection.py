"""One connection, carrying one exchange at a time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from edgesweep_agent.core.exchange import Ending

    from .flight import Flight
    from .selector import ReadingSelector

_SECOND_NS = 1_000_000_000


class Connection(asyncio.Protocol):
    """One connection, carrying one exchange at a time.

    Args:
        selector: The loop's, if it can read a connection itself. TLS needs more than a read, so
            that its connections are opened without.
    """

    def __init__(self, selector: ReadingSelector | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._selector = selector
        self._transport: asyncio.Transport | None = None
        self._flight: Flight | None = None
        self._fd = -1

    @property
    def usable(self) -> bool:
        """Still open at both ends, as far as can be known."""
        return self._transport is not None and not self._transport.is_closing()

    async def perform(
        self, flight: Flight, request: bytes, whole_s: float, idle_s: float | None
    ) -> None:
        """Sends the request and waits for the flight to end, whichever way it does.

        A cancelled wait leaves the flight ended too.

        Args:
            flight: The exchange to fill.
            request: Head and body.
            whole_s: Bound on the whole of it.
            idle_s: Bound on silence.
        """
        timer = _Timer(flight, whole_s, idle_s)
        self._flight = flight
        flight.sending(time.monotonic_ns())
        if self._transport is None or self._transport.is_closing():
            flight.finish("eof", time.monotonic_ns())
        else:
            self._transport.write(request)
            self._divert(flight)
        timer.start()
        try:
            await flight.done
        except asyncio.CancelledError:
            flight.finish("cancelled", time.monotonic_ns())
            raise
        finally:
            timer.stop()
            self._restore()
            self._flight = None

    async def close(self) -> None:
        """Gives the connection up, and returns when its socket is closed.

        Aborting spares the wait for a peer's goodbye; nothing is left to be sent.
        """
        if self._transport is not None:
            self._transport.abort()
            await self._closed

    def parse(self) -> None:
        """Has parsed what its exchange has brought so far."""
        if self._flight is not None:
            self._flight.parse()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)
        self._fd = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        """Takes the time before anything else: everything measured rests on it."""
        t_ns = time.monotonic_ns()
        if self._flight is not None:
            self._flight.receive(t_ns, data)

    def eof_received(self) -> None:
        """The server is done sending; so are we."""
        self._finish("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, in good order or not."""
        # Its descriptor may belong to another connection soon.
        self._restore()
        self._finish("eof" if exc is None else "reset", str(exc or ""))
        self._transport = None
        if not self._closed.done():
            self._closed.set_result(None)

    def _finish(self, ending: Ending, error: str = "") -> None:
        if self._flight is not None:
            self._flight.finish(ending, time.monotonic_ns(), error)

    def _divert(self, flight: Flight) -> None:
        if self._selector is not None:
            self._selector.divert(self._fd, flight)

    def _restore(self) -> None:
        if self._selector is not None:
            self._selector.restore(self._fd)


class _Timer:
    """Ends a flight that takes too long, or is silent for too long."""

    def __init__(self, flight: Flight, whole_s: float, idle_s: float | None) -> None:
        self._flight = flight
        self._whole_s, self._idle_s = whole_s, idle_s
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
