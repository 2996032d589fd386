"""The warm-up: bursts of the level's size, until two in a row take equally long."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .crew import Crew
from .flight import Place
from .sender import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep_agent.core.exchange import Exchange

    from .job import LevelJob
    from .sender import Sender


@dataclass(frozen=True, slots=True)
class WarmedUp:
    """How the warm-up went.

    Attributes:
        burst_s: Makespan of each whole burst, first send to last end.
        agreed: The last two took equally long, and nothing in them failed.
    """

    burst_s: tuple[float, ...] = ()
    agreed: bool = False


class WarmUp:
    """Carries out the warm-up of a job.

    Args:
        job: The level.
        sender: Carries out one request.
        failed: Whether an exchange failed as far as HTTP tells.
    """

    def __init__(self, job: LevelJob, sender: Sender, failed: Callable[[Exchange], object]) -> None:
        self._job = job
        self._sender = sender
        self._failed = failed
        self._makespans: list[float] = []
        self._usable: list[bool] = []

    async def run(self) -> WarmedUp:
        """Sends burst after burst, until two agree or the bodies are used up."""
        size, bodies = self._job.warmup_burst, self._job.warmup_bodies
        for first in range(0, len(bodies), size):
            burst = bodies[first : first + size]
            exchanges = await self._burst(first, burst)
            # What is left over fills the engine less and cannot be compared.
            if len(burst) == size:
                self._take(exchanges)
            if self._agreed():
                break
        return WarmedUp(tuple(self._makespans), self._agreed())

    async def _burst(self, first: int, bodies: list[bytes]) -> list[Exchange]:
        leases = await asyncio.gather(*(self._sender.connect() for _ in bodies))
        t_due_ns = time.monotonic_ns()
        exchanges: list[Exchange] = []

        async def send(position: int) -> None:
            place = Place(first + position)
            sent = self._sender.send(place, bodies[position], t_due_ns, leases[position])
            exchanges.append(await sent)

        async with Crew() as crew:
            for position in range(len(bodies)):
                crew.start(send(position))
        return exchanges

    def _take(self, exchanges: list[Exchange]) -> None:
        sent = [one.t_send_ns for one in exchanges if one.t_send_ns is not None]
        t_end_ns = max(one.t_end_ns for one in exchanges)
        self._makespans.append((t_end_ns - min(sent, default=t_end_ns)) / SECOND_NS)
        self._usable.append(not any(self._failed(one) for one in exchanges))

    def _agreed(self) -> bool:
        if len(self._makespans) < 2 or not all(self._usable[-2:]):
            return False
        shorter, longer = sorted(self._makespans[-2:])
        return longer - shorter <= self._job.warmup_agree * longer
