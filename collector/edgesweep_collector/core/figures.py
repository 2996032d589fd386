"""The figures that go with a verdict, read off the line of mean log ratios."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from edgesweep_collector.core.answer import Figures
from edgesweep_collector.core.interval import confidence_interval, hull
from edgesweep_collector.core.labels import Kind, Label, Verdict
from edgesweep_collector.core.logratio import levels_of
from edgesweep_collector.core.problem import Side, other
from edgesweep_collector.core.roots import (
    Crossing,
    direction_to,
    least_regret,
    reached_after,
    reached_before,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep_collector.core.line import Line


def figures_of(
    line: Line,
    labels: tuple[Label, ...],
    verdict: Verdict,
    crossings: Sequence[Crossing],
    margin: float,
) -> Figures:
    """The figures of a verdict that was reached from ``labels`` without regard to memory."""
    if verdict.kind is Kind.INCONCLUSIVE:
        return Figures(excluded=_excluded(line))
    if verdict.x is None:
        return Figures()
    if verdict.kind is Kind.CROSSOVER:
        return _crossover(line, labels, verdict.x, crossings, margin)
    return _lead(line, labels, verdict.x, margin)


def is_coarse(bracket: tuple[int, int]) -> bool:
    """Whether the levels are more than one doubling apart, so that a straight line may mislead."""
    return bracket[1] > 2 * bracket[0]


def _crossover(
    line: Line,
    labels: tuple[Label, ...],
    leader: Side,
    crossings: Sequence[Crossing],
    margin: float,
) -> Figures:
    proven = _proven_between(line, labels, leader)
    chosen = _chosen(line, leader, crossings, proven)
    if chosen.x is None:
        return Figures(bracket=chosen.bracket, proven_between=proven)
    guarded = confidence_interval(line, chosen.x, guarded=True)
    if guarded and is_coarse(chosen.bracket):
        guarded = hull(guarded, chosen.bracket)
    limit = math.log1p(margin) * _sign(other(leader))
    return Figures(
        crossover=chosen.concurrency,
        tie_band=(
            _exp2(reached_before(line, chosen.x, -limit)),
            _exp2(reached_after(line, chosen.x, limit)),
        ),
        bracket=chosen.bracket,
        proven_between=proven,
        ci95=guarded,
        ci95_plain=confidence_interval(line, chosen.x, guarded=False),
    )


def _proven_between(line: Line, labels: tuple[Label, ...], leader: Side) -> tuple[int, int]:
    """The last level proven for the first leader and the first one proven for the second."""
    levels = levels_of(line.x)
    last = max(k for k, label in enumerate(labels) if label == leader)
    return levels[last], levels[labels.index(other(leader))]


def _chosen(
    line: Line, leader: Side, crossings: Sequence[Crossing], proven: tuple[int, int]
) -> Crossing:
    """The crossing that the verdict is about: between the levels that prove it, in its direction.

    If one of several hides behind a failed level, none can be preferred and the place is unknown.
    """
    direction = direction_to(other(leader))
    between = [
        c
        for c in crossings
        if c.direction == direction and proven[0] <= c.bracket[0] and c.bracket[1] <= proven[1]
    ]
    if any(c.x is None for c in between):
        return between[0] if len(between) == 1 else Crossing(None, direction, proven)
    return least_regret(line, between, direction)


def _lead(line: Line, labels: tuple[Label, ...], leader: Side, margin: float) -> Figures:
    """Figures for the only proven leader, who may tie or be unresolved before and after."""
    proven = [k for k, label in enumerate(labels) if label == leader]
    first, last = proven[0], proven[-1]
    before, after = labels[:first], labels[last + 1 :]
    levels, limit = levels_of(line.x), math.log1p(margin) * _sign(leader)
    leads = np.exp(line.mean[proven] * _sign(leader))
    start = reached_before(line, float(line.x[first]), limit)
    end = reached_after(line, float(line.x[last]), limit)
    return Figures(
        leads_from=_exp2(start) if _tied(before) else None,
        leads_until=_exp2(end) if _tied(after) else None,
        bound=levels[first] if "U" in before else levels[last] if "U" in after else None,
        lead_ratio=(float(leads.min()), float(leads.max())),
    )


def _tied(labels: tuple[Label, ...]) -> bool:
    return bool(labels) and "U" not in labels


def _excluded(line: Line) -> tuple[float, float] | None:
    if line.half is None:
        return None
    ahead_b, ahead_a = (line.mean + line.half).max(), (line.half - line.mean).max()
    return max(math.expm1(ahead_a), 0.0), max(math.expm1(ahead_b), 0.0)


def _sign(side: Side) -> float:
    return 1.0 if side == "B" else -1.0


def _exp2(x: float | None) -> float | None:
    return None if x is None else 2.0**x
