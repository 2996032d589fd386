"""The run: contenders one after the other, each with its sessions, each with its levels."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import msgspec

from edgesweep.records import Contender, LevelStatus, Run, RunState
from edgesweep_agent.core.budget import LevelCost, expected_s, fits
from edgesweep_agent.core.ids import uuid7
from edgesweep_agent.errors import (
    AgentError,
    EngineError,
    LaunchError,
    SettingsError,
    UsageError,
)

from .contender import label, open_contender, planned
from .level import LevelSpec, bare, measure
from .recorder import Progress

if TYPE_CHECKING:
    from edgesweep.records import Device, LevelResult
    from edgesweep_agent.attach import Patience
    from edgesweep_agent.plan import ContenderSpec, SweepPlan

    from .contender import Ready
    from .recorder import Recorder


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: its last snapshot, its levels, and what kept contenders from running."""

    run: Run
    levels: tuple[LevelResult, ...]
    errors: tuple[AgentError, ...]


@dataclass(slots=True)
class Sweep:
    """One execution of a plan.

    Attributes:
        patience: How long to wait for an attached server.
        stop: Set it, and the run ends soon with everything recorded.
    """

    plan: SweepPlan
    device: Device
    recorder: Recorder
    patience: Patience
    stop: anyio.Event = field(default_factory=anyio.Event)
    keep_text: bool = False
    _run_id: str = field(default_factory=lambda: uuid7(time.time_ns() // 10**6, os.urandom(10)))
    _started_s: float = 0.0
    _waiting: anyio.CancelScope | None = None
    _last_wall_ns: int = 0
    _contenders: dict[str, Contender] = field(default_factory=dict)
    _levels: list[LevelResult] = field(default_factory=list)
    _errors: list[AgentError] = field(default_factory=list)

    async def run(self) -> Outcome:
        """Run the plan to its end, or to the stop.

        Raises:
            AgentError: the only contender could not be made ready: there is nothing to record.
        """
        self._started_s = time.monotonic()
        started_ns = self._wall_ns()
        await self.recorder.on_run(self._snapshot(RunState.RUNNING, started_ns))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_waiting_when_stopped)
            for session in range(1, self.plan.sessions + 1):
                for spec in self.plan.contenders:
                    await self._contender(spec, session)
            tasks.cancel_scope.cancel()
        snapshot = self._snapshot(self._end_state(), started_ns, self._wall_ns())
        await self.recorder.on_run(snapshot)
        if self._errors and not self._levels:
            raise self._errors[0]
        return Outcome(snapshot, tuple(self._levels), tuple(self._errors))

    async def _contender(self, spec: ContenderSpec, session: int) -> None:
        if (reason := self._over()) is not None:
            await self._skip(self.plan.levels, planned(spec), session, reason)
            return
        try:
            with anyio.CancelScope() as self._waiting:
                await self._open_and_measure(spec, session)
        except (EngineError, LaunchError, SettingsError, UsageError) as error:
            self._errors.append(error)
            if len(self.plan.contenders) == 1 and not self._levels:
                return
            await self._fail_all(planned(spec), session, error)
        if self._waiting is not None and self._waiting.cancelled_caught:
            await self._skip(self.plan.levels, planned(spec), session, "interrupted")

    async def _open_and_measure(self, spec: ContenderSpec, session: int) -> None:
        name = label(spec)
        async with open_contender(
            spec,
            patience=self.patience,
            start_timeout=self.plan.start_timeout,
            waiting=lambda text, _s: self.recorder.on_progress(Progress(name, text)),
        ) as ready:
            self._waiting = None
            self._check_fits(ready)
            self._check_alone(ready)
            self._contenders[ready.contender.id] = ready.contender
            await self._session(ready, session)

    def _check_fits(self, ready: Ready) -> None:
        """Refuse what the server would: better one line now than every request later."""
        shape, room = self.plan.workload, ready.contender.context_per_request
        asked = shape.prompt_tokens + shape.output_tokens
        if room is not None and asked > room:
            raise UsageError(
                f"{ready.contender.name}: {shape.prompt_tokens} prompt and {shape.output_tokens} "
                f"output tokens are {asked}, a request may use {room}: choose a smaller workload, "
                "or give the server more context per slot"
            )

    def _check_alone(self, ready: Ready) -> None:
        """Refuse a second contender that is the first one: their levels could not be told apart."""
        twin = self._contenders.get(ready.contender.id)
        if twin is not None and twin.name != ready.contender.name:
            raise SettingsError(
                f"contenders {twin.name} and {ready.contender.name} are the same configuration"
            )

    async def _end_waiting_when_stopped(self) -> None:
        """A stop ends the wait for an engine at once; a level ends itself, keeping its samples."""
        await self.stop.wait()
        if self._waiting is not None:
            self._waiting.cancel()

    async def _session(self, ready: Ready, session: int) -> None:
        last: LevelCost | None = None
        for position, concurrency in enumerate(self.plan.levels):
            requests = self.plan.requests_at(concurrency)
            needed = expected_s(last, concurrency, requests + concurrency)
            reason = self._over(needed)
            if reason is not None:
                await self._skip(self.plan.levels[position:], ready.contender, session, reason)
                return
            began = time.monotonic()
            level = await self._level(ready, session, concurrency)
            took = time.monotonic() - began
            last = LevelCost(concurrency, requests + concurrency, took)
            if level.status is LevelStatus.FAILED and not self.stop.is_set():
                rest = self.plan.levels[position + 1 :]
                reason = (
                    "engine_exited" if level.reason == "engine_exited" else "lower_level_failed"
                )
                await self._skip(rest, ready.contender, session, reason)
                return

    async def _level(self, ready: Ready, session: int, concurrency: int) -> LevelResult:
        measured = await measure(
            self._spec(session, concurrency),
            ready,
            self.plan,
            left_s=self._left_s(),
            stop=self.stop,
            keep_text=self.keep_text,
            on_progress=self.recorder.on_progress,
        )
        self._levels.append(measured.level)
        await self.recorder.on_level(measured.level, measured.samples)
        return measured.level

    async def _skip(
        self, levels: tuple[int, ...], contender: Contender, session: int, reason: str
    ) -> None:
        for concurrency in levels:
            spec = self._spec(session, concurrency)
            level = bare(spec, contender, LevelStatus.SKIPPED, reason)
            self._levels.append(level)
            await self.recorder.on_level(level, ())

    async def _fail_all(self, contender: Contender, session: int, error: AgentError) -> None:
        reason = "no_such_model" if isinstance(error, UsageError) else "not_ready"
        for concurrency in self.plan.levels:
            level = bare(self._spec(session, concurrency), contender, LevelStatus.FAILED, reason)
            self._levels.append(level)
            await self.recorder.on_level(level, ())

    def _spec(self, session: int, concurrency: int) -> LevelSpec:
        return LevelSpec(
            run_id=self._run_id,
            device=self.device,
            session=session,
            workload=self.plan.workload.workload(),
            concurrency=concurrency,
            requests=self.plan.requests_at(concurrency),
            started_wall_ns=self._wall_ns(),
            started_mono_ns=time.monotonic_ns(),
        )

    def _over(self, needed_s: float = 0.0) -> str | None:
        """Why no further level may begin, if so."""
        if self.stop.is_set():
            return "interrupted"
        elapsed = time.monotonic() - self._started_s
        return None if fits(elapsed, self.plan.budget_s, needed_s) else "time_budget"

    def _left_s(self) -> float | None:
        budget = self.plan.budget_s
        return None if budget is None else budget - (time.monotonic() - self._started_s)

    def _end_state(self) -> RunState:
        if self.stop.is_set():
            return RunState.INTERRUPTED
        failed = any(level.status is LevelStatus.FAILED for level in self._levels)
        return RunState.FAILED if failed or self._errors else RunState.COMPLETE

    def _wall_ns(self) -> int:
        """Wall time that strictly rises, so that no two levels share an instant."""
        self._last_wall_ns = max(time.time_ns(), self._last_wall_ns + 1)
        return self._last_wall_ns

    def _snapshot(self, state: RunState, started_ns: int, ended_ns: int | None = None) -> Run:
        return Run(
            run_id=self._run_id,
            state=state,
            device=self.device,
            plan_json=msgspec.json.encode(self.plan, enc_hook=str).decode(),
            contenders=tuple(self._contenders.values()),
            started_wall_ns=started_ns,
            ended_wall_ns=ended_ns,
            n_levels=len(self._levels),
            reason=str(self._errors[0]) if self._errors else "",
        )
