"""The run: contenders visited in turn, session by session, and once more where leads change."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from edgesweep.records import LevelStatus, Run, RunState
from edgesweep_agent.core.ids import uuid7
from edgesweep_agent.core.schedule import CAPTURE_STEPS, Visit, inside_brackets, visits

from .ledger import Ledger
from .visit import Terms, Visiting

if TYPE_CHECKING:
    from edgesweep.records import Device, LevelResult
    from edgesweep_agent.attach import Patience
    from edgesweep_agent.core.schedule import Curve
    from edgesweep_agent.errors import ProgramError
    from edgesweep_agent.plan import SweepPlan
    from edgesweep_agent.workloads.shape import Shape

    from .box import Box
    from .journal import Unfinished
    from .recorder import Recorder

_SEEDS = 2**31


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: its last snapshot, its levels, and what kept contenders from running."""

    run: Run
    levels: tuple[LevelResult, ...]
    errors: tuple[ProgramError, ...]


@dataclass(slots=True)
class Sweep:
    """One execution of a plan.

    Attributes:
        patience: How long to wait for an attached server.
        box: The device's sensors and memory.
        earlier: A run of this plan that was broken off, to go on with.
        stop: Set it, and the run ends soon with everything recorded.
    """

    plan: SweepPlan
    device: Device
    recorder: Recorder
    patience: Patience
    box: Box
    keep_text: bool = False
    earlier: Unfinished | None = None
    stop: anyio.Event = field(default_factory=anyio.Event)
    _visiting: Visiting | None = None

    async def run(self) -> Outcome:
        """Run the plan to its end, or to the stop.

        Raises:
            ProgramError: the only contender could not be made ready: there is nothing to record.
        """
        ledger = self._ledger()
        terms = Terms(
            ledger=ledger,
            patience=self.patience,
            box=self.box,
            seed=self._seed(ledger.run_id),
            stop=self.stop,
            keep_text=self.keep_text,
        )
        await ledger.snapshot(RunState.RUNNING)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_waiting_when_stopped)
            for visit in visits(len(self.plan.contenders), self.plan.sessions):
                await self._visit(terms, visit, self.plan.shapes(), self.plan.levels)
            if self.plan.second_pass and not self.stop.is_set():
                await self._second_pass(terms)
            tasks.cancel_scope.cancel()
        run = await ledger.snapshot(self._end_state(ledger))
        if ledger.errors and not ledger.levels:
            raise ledger.errors[0]
        return Outcome(run, ledger.levels, tuple(ledger.errors))

    def _ledger(self) -> Ledger:
        if self.earlier is None:
            run_id = uuid7(time.time_ns() // 10**6, os.urandom(10))
            return Ledger(run_id, self.plan, self.device, self.recorder)
        return Ledger(
            run_id=self.earlier.run.run_id,
            plan=self.plan,
            device=self.device,
            recorder=self.recorder,
            attempt=self.earlier.attempts + 1,
            adopted=self.earlier.finished,
        )

    def _seed(self, run_id: str) -> int:
        """The plan's, or one that a run which goes on has again."""
        if self.plan.seed is not None:
            return self.plan.seed
        return random.Random(run_id).randrange(_SEEDS)  # noqa: S311 - an order, not keys

    async def _visit(
        self, terms: Terms, visit: Visit, shapes: tuple[Shape, ...], levels: tuple[int, ...]
    ) -> None:
        spec = self.plan.contenders[visit.contender]
        self._visiting = Visiting(terms, spec, visit.session, shapes, levels)
        await self._visiting.run()

    async def _second_pass(self, terms: Terms) -> None:
        """The levels inside the brackets of throughput's crossings, a session for each."""
        for shape in self.plan.shapes():
            curves = self._curves(terms.ledger, shape.workload().name)
            engines = {contender.engine for contender in terms.ledger.contenders.values()}
            steps = CAPTURE_STEPS if "vllm" in engines and self.box.gpu != "none" else ()
            further = inside_brackets(curves, steps=steps)
            if further:
                for visit in visits(len(self.plan.contenders), self.plan.sessions):
                    await self._visit(terms, visit, (shape,), further)

    def _curves(self, ledger: Ledger, workload: str) -> list[Curve]:
        """Mean throughput of the valid levels, by contender."""
        found: dict[str, dict[int, list[float]]] = {}
        for level in ledger.levels:
            rate = level.values.get("output_tokens_per_s")
            if level.workload.name == workload and level.status is LevelStatus.VALID and rate:
                by_level = found.setdefault(level.contender.id, {})
                by_level.setdefault(level.concurrency, []).append(rate)
        return [
            {level: sum(rates) / len(rates) for level, rates in curve.items()}
            for curve in found.values()
        ]

    async def _end_waiting_when_stopped(self) -> None:
        """A stop ends the wait for an engine at once; a level ends itself, keeping its samples."""
        await self.stop.wait()
        if self._visiting is not None:
            self._visiting.stop_waiting()

    def _end_state(self, ledger: Ledger) -> RunState:
        if self.stop.is_set():
            return RunState.INTERRUPTED
        failed = any(level.status is LevelStatus.FAILED for level in ledger.levels)
        return RunState.FAILED if failed or ledger.errors else RunState.COMPLETE
