"""The book of one run: every level it came to, told to the recorders as it happens."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from edgesweep.records import Contender, LevelResult, LevelStatus, Run, RunState
from edgesweep_agent.core.budget import LevelCost, fits, more_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgesweep.records import Device, MemoryVerdict, Sample, Workload
    from edgesweep_agent.errors import ProgramError
    from edgesweep_agent.plan import SweepPlan

    from .recorder import Progress, Recorder


@dataclass(frozen=True, slots=True)
class Place:
    """Where a level belongs: whose it is, in which session, of which workload, how high."""

    contender: Contender
    session: int
    workload: Workload
    concurrency: int


@dataclass(slots=True)
class Ledger:
    """What one run has come to so far.

    Attributes:
        attempt: Of the levels measured now; a run that goes on counts up.
        adopted: Levels of an earlier attempt that are not measured again.
        costs: What levels took, by contender and workload, then by concurrency: the last time
            they were measured, or scouted.
    """

    run_id: str
    plan: SweepPlan
    device: Device
    recorder: Recorder
    attempt: int = 1
    adopted: tuple[LevelResult, ...] = ()
    errors: list[ProgramError] = field(default_factory=list)
    contenders: dict[str, Contender] = field(default_factory=dict)
    costs: dict[tuple[str, str], dict[int, LevelCost]] = field(default_factory=dict)
    _lacking_s: float = 0.0
    _lacks_unknown: bool = False
    _levels: list[LevelResult] = field(default_factory=list)
    _began_s: float = field(default_factory=time.monotonic)
    _started_wall_ns: int = 0
    _last_wall_ns: int = 0

    def __post_init__(self) -> None:
        """Take over what an earlier attempt has finished."""
        self._levels.extend(self.adopted)
        self.contenders.update((level.contender.id, level.contender) for level in self.adopted)
        self._started_wall_ns = self.wall_ns()

    @property
    def levels(self) -> tuple[LevelResult, ...]:
        """In the order in which they ended."""
        return tuple(self._levels)

    def left_s(self) -> float | None:
        """What is left of the time budget."""
        budget = self.plan.budget_s
        return None if budget is None else budget - (time.monotonic() - self._began_s)

    def has_time(self, needed_s: float = 0.0) -> bool:
        """Whether something that takes so long may begin."""
        return fits(time.monotonic() - self._began_s, self.plan.budget_s, needed_s)

    def costs_of(self, contender: Contender, workload: Workload) -> dict[int, LevelCost]:
        """What the levels of a workload took on a contender, to be added to."""
        return self.costs.setdefault((contender.id, workload.name), {})

    def lacks(self, needed_s: float | None, least_s: float = 0.0) -> str:
        """A level is left out for want of time: what it would have taken, in words.

        Args:
            needed_s: Of this level, on top of those left out before it; ``None`` if not known.
            least_s: Then so much at least; without it, nothing is said.
        """
        if needed_s is None:
            self._lacks_unknown = True
        more_s = least_s if needed_s is None else needed_s
        self._lacking_s += more_s
        return self.short_of(0.0) if more_s else ""

    def short_of(self, needed_s: float) -> str:
        """By how much the budget is too short for so much more, in words; "" if nobody knows."""
        budget, left = self.plan.budget_s, self.left_s()
        whole = self._lacking_s + needed_s
        if budget is None or left is None or not whole:
            return ""
        return more_time(whole, left, budget, at_least=self._lacks_unknown)

    def is_finished(self, place: Place) -> bool:
        """Whether an earlier attempt has it already."""
        return any(
            (level.contender.id, level.session, level.workload, level.concurrency)
            == (place.contender.id, place.session, place.workload, place.concurrency)
            for level in self.adopted
        )

    def begin(self, place: Place, attributes: Mapping[str, str]) -> LevelResult:
        """A level that is about to be measured: valid until it turns out otherwise."""
        return LevelResult(
            run_id=self.run_id,
            device=self.device,
            contender=place.contender,
            session=place.session,
            workload=place.workload,
            concurrency=place.concurrency,
            status=LevelStatus.VALID,
            started_wall_ns=self.wall_ns(),
            started_mono_ns=time.monotonic_ns(),
            attempt=self.attempt,
            attributes=attributes,
        )

    async def record(self, level: LevelResult, samples: Sequence[Sample] = ()) -> None:
        """A level has ended."""
        self._levels.append(level)
        await self.recorder.on_level(level, samples)

    async def unmeasured(
        self,
        places: Iterable[Place],
        status: LevelStatus,
        reason: str,
        verdict: MemoryVerdict | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Levels that will have no figures, and why."""
        for place in places:
            if not self.is_finished(place):
                level = self.begin(place, attributes or {})
                await self.record(replace(level, status=status, reason=reason, verdict=verdict))

    async def snapshot(self, state: RunState) -> Run:
        """Tell the recorders where the run stands."""
        run = Run(
            run_id=self.run_id,
            state=state,
            device=self.device,
            plan_json=plan_json(self.plan),
            contenders=tuple(self.contenders.values()),
            started_wall_ns=self._started_wall_ns,
            ended_wall_ns=None if state is RunState.RUNNING else self.wall_ns(),
            n_levels=len(self._levels),
            reason=str(self.errors[0]) if self.errors else "",
        )
        await self.recorder.on_run(run)
        return run

    def progress(self, progress: Progress) -> None:
        """Something moved."""
        self.recorder.on_progress(progress)

    def wall_ns(self) -> int:
        """Wall time that strictly rises, so that no two levels share an instant."""
        self._last_wall_ns = max(time.time_ns(), self._last_wall_ns + 1)
        return self._last_wall_ns


def plan_json(plan: SweepPlan) -> str:
    """The plan as it goes into the record of a run."""
    return msgspec.json.encode(plan, enc_hook=str).decode()
