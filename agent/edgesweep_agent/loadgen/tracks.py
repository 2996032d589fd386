"""A track under way: when it starts, what it sends, when it ends."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from .chains import Conversation
from .crew import Crew
from .flight import Place
from .sender import SECOND_NS, sleep_until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from edgesweep_agent.core.exchange import Exchange

    from .job import Track, Turn
    from .pool import Lease, NoConnectionError
    from .sender import Sender

    _Worker = Callable[[int, Lease | NoConnectionError], Coroutine[object, object, None]]

LEAD_NS = 100_000_000
"""A connection is opened so long before its request is due; longer, and an engine with a thread a
connection (llama.cpp) would have its threads taken by connections that say nothing."""


class TrackRun:
    """Carries out one track.

    Args:
        track: What to send.
        number: Its position among the tracks.
        first_index: ``Exchange.index`` of its first request.
        sender: Carries out one request.
        halted: Whether no further request may start anywhere.

    Attributes:
        ended: Set when its last request has ended, however it did.
    """

    def __init__(
        self,
        track: Track,
        *,
        number: int,
        first_index: int,
        sender: Sender,
        halted: Callable[[], bool],
    ) -> None:
        self.ended = asyncio.Event()
        self._track = track
        self._number = number
        self._first_index = first_index
        self._sender = sender
        self._halted = halted
        self._done = 0
        self._t_last_ns = 0
        self._milestones: list[tuple[int, asyncio.Future[int]]] = []
        self._after: TrackRun | None = None
        self._until: TrackRun | None = None
        self._more = track.until_more

    def link(self, others: Mapping[str, TrackRun]) -> None:
        """Finds the tracks that this one waits for."""
        self._after = others[self._track.after] if self._track.after else None
        self._until = others[self._track.until] if self._track.until else None

    async def run(self) -> None:
        """Waits for its start, and returns when all of its requests have ended."""
        try:
            t_start_ns = await self._start_time()
            if self._track.arrivals_s is not None:
                await self._open_loop(t_start_ns or time.monotonic_ns())
            elif self._track.chains:
                await self._workers(t_start_ns, self._conversations())
            else:
                await self._workers(t_start_ns, self._closed_loop())
        finally:
            self._end()

    async def reached(self, done: int) -> int:
        """Waits until so many requests have ended, or all of them (0); returns the instant."""
        if not self.ended.is_set() and not (done and self._done >= done):
            milestone = asyncio.get_running_loop().create_future()
            self._milestones.append((done, milestone))
            return int(await milestone)
        return self._t_last_ns or time.monotonic_ns()

    def _end(self) -> None:
        self.ended.set()
        for _, milestone in self._milestones:
            if not milestone.done():
                milestone.set_result(self._t_last_ns or time.monotonic_ns())

    async def _start_time(self) -> int | None:
        """When the first requests are due; ``None`` for as soon as they can be sent."""
        delay_ns = round(self._track.delay_s * SECOND_NS)
        if self._after is not None:
            return await self._after.reached(self._track.after_done) + delay_ns
        return time.monotonic_ns() + delay_ns if delay_ns else None

    async def _workers(self, t_start_ns: int | None, workers: list[_Worker]) -> None:
        """Their connections first: a burst leaves in one instant."""
        if t_start_ns is not None:
            await self._pause_until(t_start_ns - LEAD_NS)
        if self._over():
            return
        leases = await asyncio.gather(*(self._sender.connect() for _ in workers))
        t_due_ns = time.monotonic_ns() if t_start_ns is None else t_start_ns
        async with Crew() as crew:
            for worker, lease in zip(workers, leases, strict=True):
                crew.start(worker(t_due_ns, lease))

    def _closed_loop(self) -> list[_Worker]:
        requests = iter(enumerate(self._track.bodies))

        async def work(t_due_ns: int, first: Lease | NoConnectionError) -> None:
            lease: Lease | NoConnectionError | None = first
            for position, body in requests:
                exchange = await self._next(self._place(position), body, t_due_ns, lease)
                if exchange is None:
                    return
                lease, t_due_ns = None, self._after_thought(exchange)
            if lease is not None:
                await self._sender.discard(lease)

        return [work] * min(self._track.concurrency, len(self._track.bodies))

    def _conversations(self) -> list[_Worker]:
        workers: list[_Worker] = []
        position = 0
        for number, chain in enumerate(self._track.chains):
            if chain:
                workers.append(self._conversation(number, chain, position))
            position += len(chain)
        return workers

    def _conversation(self, number: int, chain: list[Turn], position: int) -> _Worker:
        async def work(t_due_ns: int, first: Lease | NoConnectionError) -> None:
            lease: Lease | NoConnectionError | None = first
            conversation = Conversation()
            for step, turn in enumerate(chain):
                place = self._place(position + step, number, step)
                body = conversation.request(turn)
                exchange = await self._next(place, body, t_due_ns, lease)
                if exchange is None or not conversation.hear(exchange):
                    return
                lease, t_due_ns = None, self._after_thought(exchange)

        return work

    async def _open_loop(self, t_start_ns: int) -> None:
        async with Crew() as crew:
            for position, arrival_s in enumerate(self._track.arrivals_s or ()):
                t_due_ns = t_start_ns + round(arrival_s * SECOND_NS)
                await self._pause_until(t_due_ns - LEAD_NS)
                if self._over():
                    break
                body = self._track.bodies[position]
                crew.start(self._next(self._place(position), body, t_due_ns, None))

    async def _next(
        self, place: Place, body: bytes, t_due_ns: int, lease: Lease | NoConnectionError | None
    ) -> Exchange | None:
        """Sends a request when it is due; ``None`` if none may be started any more."""
        if lease is None:
            await self._pause_until(t_due_ns - LEAD_NS)
            if self._over():
                return None
            lease = await self._sender.connect()
        await self._pause_until(t_due_ns)
        if not self._may_start():
            await self._sender.discard(lease)
            return None
        exchange = await self._sender.send(place, body, t_due_ns, lease)
        self._note(exchange.t_end_ns)
        return exchange

    def _note(self, t_end_ns: int) -> None:
        """A request has ended."""
        self._done += 1
        self._t_last_ns = max(self._t_last_ns, t_end_ns)
        for done, milestone in self._milestones:
            if done and self._done >= done and not milestone.done():
                milestone.set_result(t_end_ns)

    def _after_thought(self, exchange: Exchange) -> int:
        """When a worker's next request is due."""
        return exchange.t_end_ns + round(self._track.think_s * SECOND_NS)

    def _place(self, position: int, chain: int = -1, step: int = -1) -> Place:
        return Place(self._first_index + position, self._number, chain, step)

    def _over(self) -> bool:
        """Whether no further request will be started here."""
        ended = self._until is not None and self._until.ended.is_set()
        return self._halted() or (ended and not self._more)

    def _may_start(self) -> bool:
        """Whether a request may start now, which it then must."""
        if self._over():
            return False
        if self._until is not None and self._until.ended.is_set():
            self._more -= 1
        return True

    async def _pause_until(self, t_ns: int) -> None:
        """Sleeps, but not beyond the end of the track that this one accompanies."""
        left_s = (t_ns - time.monotonic_ns()) / SECOND_NS
        if left_s <= 0:
            return
        if self._until is None or self._more:
            await sleep_until(t_ns)
            return
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._until.ended.wait(), left_s)
