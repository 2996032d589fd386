"""Plays one device's life on a clock, and delivers it as an agent does."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from edgesweep.delivery import Delivery, Policy
from edgesweep.envelope import AckStatus

from .boots import clocks, version
from .line import Caller, LineDown, Passed
from .outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep.delivery import Key, Parcel
    from edgesweep.envelope import Ack

    from .life import Life
    from .line import Dial, Line

MOST_WAITING = 500
"""So many records of a device may wait; it makes no more until some are acknowledged."""
_LINGER_S = 5.0
_TURN = 50
"""After so many records that were made at once, others have their turn."""


@dataclass(slots=True)
class Tally:
    """What all devices together did.

    Attributes:
        twice: Sent once more on purpose.
        resent: Sent again for want of an ack.
        latencies_s: From the first sending of a record to its ack.
        refused: Texts of the collector, each once.
        down: Why a connection ended last.
    """

    made: int = 0
    acked: int = 0
    rejected: int = 0
    twice: int = 0
    resent: int = 0
    connected: int = 0
    connects: int = 0
    latencies_s: array[float] = field(default_factory=lambda: array("d"))
    refused: set[str] = field(default_factory=set)
    down: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """The clock of the fleet against ours.

    Attributes:
        begun_s: When the fleet's time was 0, in seconds of ``clock``.
        speed: Seconds of the fleet in one of ours; 0 for as fast as it is taken.
    """

    begun_s: float
    speed: float
    clock: Callable[[], float]

    async def until(self, at_s: float) -> None:
        """Return when the fleet's time is ``at_s``; at once where there is no pace."""
        if not self.speed:
            return
        early_s = self.begun_s + at_s / self.speed - self.clock()
        if early_s > 0:
            await anyio.sleep(early_s)


class Player:
    """One device.

    Args:
        life: What it says.
        dial: How it connects.
        pace: When it says it.
        tally: Where it is counted.
        policy: Of its delivery.

    Attributes:
        is_over: Whether it has made all it ever will.
    """

    def __init__(self, life: Life, dial: Dial, pace: Pace, tally: Tally, policy: Policy) -> None:
        self._life, self._dial, self._pace, self._tally = life, dial, pace, tally
        self._outbox = Outbox()
        self._delivery = Delivery(random.random, policy)
        self._wake = anyio.Event()
        self._settled = anyio.Event()
        self._first_sent_s: dict[Key, float] = {}
        self._connection = 0
        self.is_over = False
        self._epoch = life.epoch(0)

    @property
    def waiting(self) -> int:
        """Records without an ack."""
        return len(self._outbox)

    async def play(self) -> None:
        """Live, and return when all that was made is settled."""
        await self._pace.until(self._life.one.joins_s)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._make)
            await self._deliver()

    async def _make(self) -> None:
        for n, made in enumerate(self._life):
            await self._pace.until(made.at_s)
            while len(self._outbox) >= MOST_WAITING:
                await self._settled.wait()
            self._outbox.put(made)
            self._epoch = made.epoch
            self._tally.made += 1
            self._stir()
            if n % _TURN == 0:
                await anyio.lowlevel.checkpoint()
        self.is_over = True
        self._stir()

    async def _deliver(self) -> None:
        clock = self._pace.clock
        while not self._is_done():
            self._connection += 1
            try:
                async with self._dial(self._caller()) as line:
                    self._delivery.connected(clock())
                    self._tally.connects += 1
                    self._tally.connected += 1
                    try:
                        await self._converse(line)
                    finally:
                        self._tally.connected -= 1
            except LineDown as down:
                self._tally.down = str(down)
                await anyio.sleep(self._delivery.disconnected(clock()))

    def _caller(self) -> Caller:
        one = self._life.one
        clock = clocks(one)
        at_s = one.joins_s
        if self._pace.speed:
            at_s = (self._pace.clock() - self._pace.begun_s) * self._pace.speed
        return Caller(
            device_id=one.device_id,
            connection=self._connection,
            epoch=self._epoch,
            boot_id=clock.boot_id,
            agent_version=version(one, at_s),
            wall_ns=clock.wall_ns(at_s),
            wake=self._stir,
        )

    async def _converse(self, line: Line) -> None:
        """Send and settle until all is done."""
        clock = self._pace.clock
        while True:
            # What is set from here on ends the pause below at once.
            self._wake = anyio.Event()
            for word in line.heard():
                self._take(word)
            if self._is_done():
                return
            self._delivery.offer(self._outbox.head(self._delivery.policy.window_count), clock())
            for parcel in self._delivery.due(clock()):
                await self._send(line, parcel)
            if self._delivery.stalled(clock()):
                raise LineDown("nothing comes back")
            due_s = self._delivery.next_due_s()
            pause_s = _LINGER_S if due_s is None else min(_LINGER_S, due_s - clock())
            with anyio.move_on_after(max(0.0, pause_s)):
                await self._wake.wait()

    async def _send(self, line: Line, parcel: Parcel) -> None:
        now_s = self._pace.clock()
        if self._first_sent_s.setdefault(parcel.key, now_s) != now_s:
            self._tally.resent += 1
        await line.send(parcel)
        self._delivery.sent(parcel.key, self._pace.clock())
        if self._outbox.is_sent_twice(parcel.key):
            self._tally.twice += 1
            await line.send(parcel)

    def _take(self, word: Ack | Passed) -> None:
        now_s = self._pace.clock()
        if isinstance(word, Passed):
            if word.handed_on:
                self._delivery.heard()
            else:
                self._delivery.unheard(word.key, now_s)
            return
        settled = self._delivery.acked(word, now_s)
        if word.status is AckStatus.REJECTED and settled.rejected:
            self._tally.refused.add(word.reason)
        for key in settled.delivered:
            self._tally.latencies_s.append(now_s - self._first_sent_s.pop(key, now_s))
        for key in settled.rejected:
            self._first_sent_s.pop(key, None)
        self._tally.acked += len(settled.delivered)
        self._tally.rejected += len(settled.rejected)
        self._outbox.settle((*settled.delivered, *settled.rejected))
        self._settled.set()
        self._settled = anyio.Event()

    def _is_done(self) -> bool:
        return self.is_over and not len(self._outbox)

    def _stir(self) -> None:
        self._wake.set()
