"""One visit: an engine is started or attached to, scouted, measured, and put away."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio
import msgspec

from edgesweep.records import LevelStatus
from edgesweep_agent.core.budget import (
    LevelCost,
    expected_s,
    nearest,
)
from edgesweep_agent.core.model_shape import ShapeError
from edgesweep_agent.core.schedule import level_order
from edgesweep_agent.errors import EngineError, LaunchError, SettingsError, UsageError
from edgesweep_agent.plan import ManagedSpec

from .admission import admit
from .arrange import longest
from .contender import Opening, label, planned
from .ledger import Place
from .level import measure, scout
from .opening import open_contender
from .recorder import Progress
from .sameness import processes_of
from .shortfall import of_cut, requests_of, said
from .soak import soak
from .task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgesweep.records import Contender, LevelResult, MemoryVerdict
    from edgesweep_agent.attach import Patience
    from edgesweep_agent.errors import ProgramError
    from edgesweep_agent.plan import ContenderSpec, SweepPlan
    from edgesweep_agent.workloads.shape import Shape

    from .box import Box
    from .contender import Ready
    from .ledger import Ledger
    from .task import Measured


_CANNOT = (EngineError, LaunchError, SettingsError, UsageError)
"""What keeps a contender from being measured, and the others not."""
_SCOUTED = frozenset({"chat", "natural", "replay"})
"""Kinds of which a burst of the level's size is a small part of what is measured."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What all visits of a run share."""

    ledger: Ledger
    patience: Patience
    box: Box
    seed: int
    stop: anyio.Event
    keep_text: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """One level of one workload, still to be measured."""

    shape: Shape
    concurrency: int


def _stops(level: LevelResult) -> str:
    """Why a scout goes no further than this level; "" if it does."""
    if level.status is LevelStatus.FAILED:
        return level.reason
    return "errors" if any(flag.name == "errors" for flag in level.flags) else ""


def _cost(cell: Cell, seen: Measured) -> LevelCost:
    return LevelCost(cell.concurrency, seen.requests, seen.seconds)


def _refuse_another_start(ready: Ready) -> None:
    """Where an engine ended before it had a level, another one would as well.

    Raises:
        LaunchError: how it ended.
    """
    reason = "engine_exited" if ready.breach() is None else "memory_floor"
    how = ready.died() or "it ended"
    name = ready.contender.name
    raise LaunchError(f"contender {name}: over before a level was measured: {how}", reason=reason)


@dataclass(slots=True)
class Visiting:
    """One contender in one session.

    Attributes:
        levels: Ascending.
    """

    terms: Terms
    spec: ContenderSpec
    session: int
    shapes: tuple[Shape, ...]
    levels: tuple[int, ...]
    _waiting: anyio.CancelScope | None = None
    _position: int = 0
    _known: Contender | None = None
    _verdicts: Mapping[int, MemoryVerdict] = field(default_factory=dict)
    _refused: Mapping[Cell, MemoryVerdict] = field(default_factory=dict)
    _per_request_bytes: float | None = None
    _attributes: dict[str, str] = field(default_factory=dict)

    def stop_waiting(self) -> None:
        """End the wait for an engine that is starting."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def run(self) -> None:
        """Measure what can be measured; everything else is recorded with its reason."""
        cells = self._cells()
        if (reason := self._over()) is not None:
            await self._skip(cells, reason)
            return
        try:
            cells = await self._admitted(cells)
        except (UsageError, ShapeError) as error:
            # The plan's file names the model: that is what has to be mended.
            where = f"contender {label(self.spec)}: {error}"
            await self._cannot(cells, SettingsError(where))
            return
        if self._plan.policy == "per_level" and isinstance(self.spec, ManagedSpec):
            for cell in sorted(cells, key=lambda cell: cell.concurrency):
                spec = msgspec.structs.replace(self.spec, slots=cell.concurrency)
                await self._start(spec, [cell])
            await self._tell_refused()
            return
        while cells and self._over() is None:
            # Levels below one that ended the engine are measured on a new one.
            cells = await self._start(self.spec, cells)
        if cells:
            await self._skip(cells, self._over() or "interrupted")
        await self._tell_refused()

    @property
    def _ledger(self) -> Ledger:
        return self.terms.ledger

    @property
    def _plan(self) -> SweepPlan:
        return self.terms.ledger.plan

    def _cells(self) -> list[Cell]:
        levels: Sequence[int] = self.levels
        if self._plan.order == "shuffled":
            levels = level_order(levels, self.terms.seed, self.session)
        return [Cell(shape, level) for shape in self.shapes for level in levels]

    async def _admitted(self, cells: list[Cell]) -> list[Cell]:
        """Without the levels that cannot fit; the engine is sized for those that do."""
        before = self._before()
        admission = await admit(
            self.spec,
            self._plan,
            self.levels,
            self.terms.box,
            slots_before=None if before is None else before.slots,
        )
        self.spec = admission.spec
        self._verdicts, self._per_request_bytes = admission.admitted, admission.per_request_bytes
        self._refused = {
            cell: admission.refused[cell.concurrency]
            for cell in cells
            if cell.concurrency in admission.refused
        }
        if admission.sized:
            self._attributes["slots_sized"] = admission.sized
            self._ledger.progress(Progress(label(self.spec), f"sized to {admission.sized}"))
        return [cell for cell in cells if cell not in self._refused]

    def _before(self) -> Contender | None:
        """This contender as an earlier session had it: its levels are of one configuration."""
        name = label(self.spec)
        if [label(spec) for spec in self._plan.contenders].count(name) > 1:
            return None
        known = self._ledger.contenders.values()
        return next((one for one in known if one.managed and one.name == name), None)

    async def _tell_refused(self) -> None:
        """As levels of the contender that is measured, once it is known."""
        for cell, verdict in self._refused.items():
            place = self._place(cell, self._contender())
            await self._ledger.unmeasured(
                [place], LevelStatus.SKIPPED, "memory", verdict, self._attributes
            )
        self._refused = {}

    async def _start(self, spec: ContenderSpec, cells: list[Cell]) -> list[Cell]:
        """Measure on one start of the engine; returns what is left for another."""
        try:
            with anyio.CancelScope() as self._waiting:
                return await self._open(spec, cells)
        except _CANNOT as error:
            await self._cannot(cells, error)
            return []
        await self._skip(cells, "interrupted")
        return []

    async def _cannot(self, cells: list[Cell], error: ProgramError) -> None:
        """The contender cannot be measured; the only one of a run leaves nothing to record."""
        self._ledger.errors.append(error)
        alone = len(self._plan.contenders) == 1
        if not alone or self._ledger.levels or self._refused:
            await self._fail(cells, error)

    async def _open(self, spec: ContenderSpec, cells: list[Cell]) -> list[Cell]:
        opening = Opening(
            plan=self._plan,
            box=self.terms.box,
            patience=self.terms.patience,
            waiting=lambda text, waited_s: self._ledger.progress(
                Progress(label(spec), text, waited_s=waited_s)
            ),
        )
        async with open_contender(spec, opening) as opened:
            born = processes_of(self.terms.box, opened.pids()) or frozenset()
            ready = replace(opened, born=born)
            self._waiting = None
            await self._check_fits(ready, cells)
            self._check_alone(ready)
            self._known = self._ledger.contenders[ready.contender.id] = ready.contender
            places = {cell: self._place(cell, ready.contender) for cell in cells}
            cells = [cell for cell in cells if not self._ledger.is_finished(places[cell])]
            idle_w = await self.terms.box.idle_w() if cells else None
            if idle_w is not None:
                ready = replace(ready, values={**ready.values, "idle_w": idle_w})
            if cells and self._plan.thermal == "soaked":
                highest = max(cells, key=lambda cell: cell.concurrency)
                self._attributes["soak"] = await soak(self._task(ready, highest, 0))
            admitted = await self._scouted(ready, cells) if self._scouts else cells
            left = await self._measured(ready, admitted)
            if left and left == cells:
                _refuse_another_start(ready)
            return left

    async def _scouted(self, ready: Ready, cells: list[Cell]) -> list[Cell]:
        """Ascending, one burst a level: the levels below the first that fails are admitted."""
        admitted: list[Cell] = []
        admitted += [cell for cell in cells if cell.shape.kind not in _SCOUTED]
        for shape in self.shapes:
            if shape.kind not in _SCOUTED:
                continue
            ascending = sorted((c for c in cells if c.shape == shape), key=lambda c: c.concurrency)
            for position, cell in enumerate(ascending):
                if self._over() is not None or ready.died():
                    admitted += ascending[position:]
                    break
                seen = await scout(self._task(ready, cell, position))
                self._costs(cell)[cell.concurrency] = _cost(cell, seen)
                if (reason := _stops(seen.level)) and not self.terms.stop.is_set():
                    failed = replace(seen.level, status=LevelStatus.FAILED, reason=reason)
                    await self._ledger.record(failed, seen.samples)
                    await self._skip(ascending[position + 1 :], "lower_level_failed")
                    break
                admitted.append(cell)
        order = {cell: position for position, cell in enumerate(cells)}
        return sorted(admitted, key=lambda cell: order[cell])

    async def _measured(self, ready: Ready, cells: list[Cell]) -> list[Cell]:
        """One level after the other; returns those that a new start may still measure."""
        while cells and not ready.died():
            cell = cells[0]
            if (reason := self._over(self._needed_s(cell))) is not None:
                await self._skip(cells, reason)
                return []
            cells = cells[1:]
            level = await self._level(ready, cell)
            if level.status is LevelStatus.FAILED and not self.terms.stop.is_set():
                cells = await self._without_higher(cell, level, cells)
        return cells

    async def _without_higher(
        self, failed: Cell, level: LevelResult, cells: list[Cell]
    ) -> list[Cell]:
        """What failed here would fail above as well."""
        reason = "engine_exited" if level.reason == "engine_exited" else "lower_level_failed"
        higher = [
            cell
            for cell in cells
            if cell.shape == failed.shape and cell.concurrency > failed.concurrency
        ]
        await self._skip(higher, reason)
        return [cell for cell in cells if cell not in higher]

    async def _level(self, ready: Ready, cell: Cell) -> LevelResult:
        self._position += 1
        task = self._task(ready, cell, self._position)
        seen = await measure(task)
        level, cost = seen.level, _cost(cell, seen)
        self._costs(cell)[cell.concurrency] = cost
        if level.reason == "time_budget":
            level = replace(level, attributes={**level.attributes, **of_cut(task, seen)})
        await self._ledger.record(level, seen.samples)
        return level

    def _costs(self, cell: Cell) -> dict[int, LevelCost]:
        return self._ledger.costs_of(self._contender(), cell.shape.workload())

    def _needed_s(self, cell: Cell) -> float:
        """What a level should take, by what the nearest one took; 0 if nothing is known yet."""
        known = nearest(self._costs(cell), cell.concurrency)
        return expected_s(
            known, cell.concurrency, requests_of(self._plan, cell.shape, cell.concurrency)
        )

    def _task(self, ready: Ready, cell: Cell, position: int) -> Task:
        return Task(
            ready=ready,
            shape=cell.shape,
            concurrency=cell.concurrency,
            session=self.session,
            position=position,
            verdict=self._verdicts.get(cell.concurrency),
            per_request_bytes=self._per_request_bytes,
            attributes=dict(self._attributes),
            ledger=self._ledger,
            box=self.terms.box,
            seed=self.terms.seed,
            stop=self.terms.stop,
            keep_text=self.terms.keep_text,
        )

    async def _check_fits(self, ready: Ready, cells: Sequence[Cell]) -> None:
        """Refuse what the server would: better one line now than every request later."""
        facts = ready.target.facts
        for cell in cells if facts.context_per_request is not None else ():
            prompt, output = await longest(cell.shape, cell.concurrency, ready.target)
            if misfit := facts.misfit(prompt, output):
                raise UsageError(
                    f"{ready.contender.name}: {cell.shape.workload().name} at level "
                    f"{cell.concurrency}: {prompt} prompt and {output} output tokens do not go "
                    f"into the context of one request ({misfit}): choose a smaller workload, or "
                    "give the server more context per slot"
                )

    def _check_alone(self, ready: Ready) -> None:
        """Refuse a second contender that is the first one: their levels could not be told apart."""
        twin = self._ledger.contenders.get(ready.contender.id)
        if twin is not None and twin.name != ready.contender.name:
            raise SettingsError(
                f"contenders {twin.name} and {ready.contender.name} are the same configuration"
            )

    def _over(self, needed_s: float = 0.0) -> str | None:
        """Why no further level may begin, if so."""
        if self.terms.stop.is_set():
            return "interrupted"
        return None if self._ledger.has_time(needed_s) else "time_budget"

    async def _skip(self, cells: Sequence[Cell], reason: str) -> None:
        if reason != "time_budget":
            await self._unmeasured(cells, LevelStatus.SKIPPED, reason)
            return
        for cell in cells:
            place = self._place(cell, self._contender())
            if not self._ledger.is_finished(place):
                told = said(self._ledger.lacks(self._needed_s(cell) or None))
                await self._ledger.unmeasured([place], LevelStatus.SKIPPED, reason, attributes=told)

    async def _fail(self, cells: Sequence[Cell], error: ProgramError) -> None:
        reason = "no_such_model" if isinstance(error, UsageError) else "not_ready"
        if isinstance(error, LaunchError):
            reason = error.reason
        await self._unmeasured(cells, LevelStatus.FAILED, reason)

    async def _unmeasured(self, cells: Sequence[Cell], status: LevelStatus, reason: str) -> None:
        places = [self._place(cell, self._contender()) for cell in cells]
        await self._ledger.unmeasured(places, status, reason)

    def _contender(self) -> Contender:
        """Who levels that are not measured belong to, as well as that is known."""
        return self._known or self._before() or planned(self.spec)

    def _place(self, cell: Cell, contender: Contender) -> Place:
        return Place(contender, self.session, cell.shape.workload(), cell.concurrency)

    @property
    def _scouts(self) -> bool:
        shuffled = self._plan.order == "shuffled" and self._plan.policy == "fixed"
        return shuffled and self.session == 1 and self._position == 0
