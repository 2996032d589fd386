"""The whole fleet at once, until it is done, nobody answers any more, or a signal says stop."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from .life import Life
from .player import Pace, Player, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgesweep.delivery import Policy

    from .fleet import Fleet
    from .line import Dial

PATIENCE_S = 30.0
PROGRESS_S = 10.0
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a fleet.

    Attributes:
        waiting: Records that have no ack.
        missing_told, missing_untold: Numbers that were left out on purpose.
        signal: The number of the signal that ended it; 0 if none did.
    """

    tally: Tally
    waiting: int
    missing_told: int
    missing_untold: int
    took_s: float
    signal: int = 0

    @property
    def exit_code(self) -> int:
        """0 if everything that was made is archived."""
        if self.signal:
            return 128 + self.signal
        return 1 if self.waiting or self.tally.rejected else 0

    def latency_s(self, share: float) -> float | None:
        """So large a share of the acks came within this; ``None`` of no acks."""
        ordered = sorted(self.tally.latencies_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


@dataclass(frozen=True, slots=True)
class Progress:
    """How it goes."""

    tally: Tally
    waiting: int
    devices: int


async def perform(
    fleet: Fleet,
    dial: Dial,
    *,
    speed: float,
    policy: Policy,
    tell: Callable[[Progress], None],
    clock: Callable[[], float] = time.monotonic,
    patience_s: float = PATIENCE_S,
) -> Outcome:
    """Play a fleet.

    Args:
        fleet: Who.
        dial: How its devices connect.
        speed: Seconds of the fleet in one of ours; 0 for as fast as it is taken.
        policy: Of their delivery.
        tell: Told every ten seconds how it goes.
        clock: Monotonic seconds.
        patience_s: Once everything is made, so long without any ack ends it.
    """
    begun_s, tally = clock(), Tally()
    lives = [Life(one) for one in fleet.devices]
    pace = Pace(begun_s, speed, clock)
    players = [Player(life, dial, pace, tally, policy) for life in lives]
    number = 0

    async def watch_signals() -> None:
        nonlocal number
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for one in signals:
                number = int(one)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_signals)
        tasks.start_soon(_report, players, tally, tell)
        tasks.start_soon(_give_up, players, tally, patience_s, tasks.cancel_scope)
        async with anyio.create_task_group() as playing:
            for player in players:
                playing.start_soon(player.play)
        tasks.cancel_scope.cancel()
    return Outcome(
        tally=tally,
        waiting=sum(player.waiting for player in players),
        missing_told=sum(life.missing.told for life in lives),
        missing_untold=sum(life.missing.untold for life in lives),
        took_s=clock() - begun_s,
        signal=number,
    )


async def _report(
    players: Sequence[Player], tally: Tally, tell: Callable[[Progress], None]
) -> None:
    while True:
        await anyio.sleep(PROGRESS_S)
        tell(Progress(tally, sum(player.waiting for player in players), len(players)))


async def _give_up(
    players: Sequence[Player], tally: Tally, patience_s: float, scope: anyio.CancelScope
) -> None:
    """End it when everything was made long ago and nothing is acknowledged any more."""
    last, waited_s = -1, 0.0
    while waited_s < patience_s:
        settled = tally.acked + tally.rejected
        if settled != last or not all(player.is_over for player in players):
            last, waited_s = settled, 0.0
        await anyio.sleep(_LOOK_S)
        waited_s += _LOOK_S
    scope.cancel()
