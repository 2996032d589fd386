"""At which concurrency does engine B overtake engine A, or why is there no such level?

The log ratio of the engines is taken on straight lines over log2 concurrency, each engine on its
own levels; the class is the mean over units, its scatter Student's t over units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from edgesweep_collector.core.answer import Answer, Figures
from edgesweep_collector.core.capacity import Capacity, beyond_capacity, capacity_of
from edgesweep_collector.core.figures import figures_of, is_coarse
from edgesweep_collector.core.flags import Flag
from edgesweep_collector.core.labels import (
    Kind,
    Label,
    Verdict,
    inside,
    level_labels,
    point_leaders,
    verdict_of,
)
from edgesweep_collector.core.line import (
    Line,
    covering,
    needed_units,
    repeats_line,
    units_line,
)
from edgesweep_collector.core.logratio import UnitRatio, levels_of, pooled, unit_ratios
from edgesweep_collector.core.roots import crossings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep_collector.core.problem import Problem, Side

# Below this many, sessions carry too few degrees of freedom to stand as units of their own.
_MIN_SESSIONS = 3
_SIDES: Final[tuple[Side, Side]] = ("A", "B")
_CONTRADICTION = "the point estimates change winner more than once, and no level proves it"


@dataclass(frozen=True, slots=True)
class _Sample:
    """The units of a problem, those that the line is drawn from, and the line if there is one."""

    ratios: tuple[UnitRatio, ...]
    kept: tuple[UnitRatio, ...]
    need: int
    line: Line | None


def estimate(problem: Problem) -> Answer:
    """The answer to ``problem``; it never raises for what was measured or is missing."""
    sample = _sample(problem)
    capacity = capacity_of(problem)
    kept = {ratio.name for ratio in sample.kept}
    common = Answer(
        verdict=Verdict(Kind.INSUFFICIENT_DATA),
        capacity=capacity,
        units=len(sample.kept),
        set_aside=tuple(r.name for r in sample.ratios if r.name not in kept),
        failed_a=_failed(sample.ratios, "A"),
        failed_b=_failed(sample.ratios, "B"),
        dropped=sum(r.a.dropped + r.b.dropped for r in sample.ratios),
    )
    if sample.line is None:
        answer = _without_line(problem, sample, common)
    else:
        answer = _on_line(problem, sample, sample.line, common)
    return replace(answer, flags=tuple(_flags(problem, sample, answer)))


def _sample(problem: Problem) -> _Sample:
    if problem.unit_kind == "session" and 1 < len(problem.units) < _MIN_SESSIONS:
        merged = pooled(problem.units, " + ".join(unit.name for unit in problem.units))
        problem = replace(problem, units=(merged,))
    ratios = unit_ratios(problem)
    need = needed_units(len(ratios)) if ratios else 1
    kept = covering(ratios, need)
    if not kept:
        return _Sample(ratios, kept, need, None)
    line = repeats_line(kept[0]) if len(kept) == 1 else units_line(kept, need)
    return _Sample(ratios, kept, need, line if line.x.size else None)


def _on_line(problem: Problem, sample: _Sample, line: Line, common: Answer) -> Answer:
    labels = level_labels(line, problem.margin)
    found = crossings(line)
    base, reason = _verdict(line, labels, problem.margin)
    verdict = beyond_capacity(base, common.capacity)
    if not _covers(line, common.capacity):
        base = verdict = Verdict(Kind.INSUFFICIENT_DATA)
        reason = f"one common level ({levels_of(line.x)[0]}); two are needed"
    figures = figures_of(line, labels, base, found, problem.margin)
    return replace(
        common,
        verdict=verdict,
        # Several changes of lead never come down to one number.
        figures=Figures() if verdict.kind is Kind.MULTIPLE_CROSSINGS else figures,
        levels=levels_of(line.x),
        labels="".join(labels),
        log_ratio=tuple(float(m) for m in line.mean),
        half_width=None if line.half is None else tuple(float(h) for h in line.half),
        crossings=found,
        capacity_crossover=_ends(common.capacity) if verdict != base else None,
        unit_crossovers=_unit_crossovers(sample.kept),
        reason=reason,
    )


def _verdict(line: Line, labels: tuple[Label, ...], margin: float) -> tuple[Verdict, str | None]:
    verdict = verdict_of(labels)
    if verdict.kind is not Kind.MULTIPLE_CROSSINGS and len(point_leaders(line, margin)) > 2:
        return Verdict(Kind.INCONCLUSIVE), _CONTRADICTION
    return verdict, None


def _covers(line: Line, capacity: Capacity | None) -> bool:
    """Whether there is enough line for a verdict: two levels, or all that memory allows."""
    if line.x.size > 1:
        return True
    return (
        capacity is not None
        and capacity.limited != "both"
        and levels_of(line.x)[0] >= capacity.last_ok
    )


def _ends(capacity: Capacity | None) -> tuple[int, int] | None:
    return None if capacity is None else (capacity.last_ok, capacity.first_failed)


def _unit_crossovers(kept: Sequence[UnitRatio]) -> tuple[tuple[str, float | None], ...]:
    if len(kept) < 2:
        return ()
    own = ((ratio.name, crossings(units_line([ratio], need=1))) for ratio in kept)
    return tuple((name, c[0].concurrency if len(c) == 1 else None) for name, c in own)


def _failed(ratios: Sequence[UnitRatio], side: Side) -> tuple[int, ...]:
    curves = [ratio.a if side == "A" else ratio.b for ratio in ratios]
    return tuple(sorted({c for curve in curves for c in levels_of(curve.x[np.isnan(curve.z)])}))


def _without_line(problem: Problem, sample: _Sample, common: Answer) -> Answer:
    """Why there is no level at which the engines can be compared."""
    missing = [side for side in _SIDES if not _valid_levels(sample.ratios, side)]
    if missing:
        names = " and ".join(problem.engine(side) for side in missing)
        return replace(common, reason=f"no valid level for {names}")
    shared = sum(ratio.knots().size > 0 for ratio in sample.ratios)
    if 0 < shared < sample.need:
        counted = f"{shared} of {len(sample.ratios)} units have levels of both engines"
        return replace(common, reason=f"{counted}; {sample.need} are needed")
    ranges = ", ".join(
        f"{problem.engine(side)} at {_listed(_valid_levels(sample.ratios, side))}"
        for side in _SIDES
    )
    reason = f"no level is common to both engines on enough units: {ranges}"
    return replace(common, verdict=Verdict(Kind.NO_OVERLAP), reason=reason)


def _valid_levels(ratios: Sequence[UnitRatio], side: Side) -> tuple[int, ...]:
    curves = [ratio.a if side == "A" else ratio.b for ratio in ratios]
    return tuple(sorted({c for curve in curves for c in levels_of(curve.valid)}))


def _listed(levels: Sequence[int]) -> str:
    return ", ".join(str(level) for level in levels)


def _flags(problem: Problem, sample: _Sample, answer: Answer) -> list[Flag]:
    figures, one = answer.figures, len(sample.ratios) == 1
    repeated = sample.line is not None and sample.line.half is not None
    between = inside(answer.labels) if figures.lead_ratio else ""
    holds = {
        Flag.SINGLE_DEVICE: one or problem.unit_kind == "session",
        Flag.NO_REPEATS: one and sample.line is not None and not repeated,
        Flag.POOLED_REPEATS: one and repeated,
        Flag.LOW_SESSIONS: problem.unit_kind == "session" and len(problem.units) < _MIN_SESSIONS,
        Flag.LOW_DEVICES: len(sample.kept) == 2,
        Flag.PARTIAL_RANGE: bool(sample.kept) and bool(answer.set_aside),
        Flag.COARSE_BRACKET: figures.bracket is not None and is_coarse(figures.bracket),
        Flag.GAP_IN_BRACKET: figures.bracket is not None and figures.crossover is None,
        Flag.TIE_INSIDE: between == "T",
        Flag.UNRESOLVED_INSIDE: between == "U",
        Flag.VALUES_DROPPED: answer.dropped > 0,
    }
    return [flag for flag in Flag if holds[flag]]
