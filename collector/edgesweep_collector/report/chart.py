"""What one chart shows: two engines over concurrency, and where the lead changes hands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgesweep_collector.core.answer import Answer
    from edgesweep_collector.core.problem import Side
    from edgesweep_collector.report.facts import (
        Finding,
        LevelRow,
        MetricDefinition,
        ReportFacts,
        Status,
    )

# Where repeats of a level differ in status, the one that tells most about it counts.
_RANK: Final[Mapping[Status, int]] = {
    "valid": 0,
    "queued": 1,
    "flagged": 2,
    "failed": 3,
    "skipped": 4,
}


@dataclass(frozen=True, slots=True)
class Point:
    """One level of one engine; ``value`` is None where there is nothing to draw at a height."""

    concurrency: int
    value: float | None
    status: Status
    reason: str | None


@dataclass(frozen=True, slots=True)
class Chart:
    """Two curves of one metric; ``answer`` marks the crossover if there is one for it."""

    metric: MetricDefinition
    names: Mapping[Side, str]
    points: Mapping[Side, tuple[Point, ...]]
    answer: Answer | None = None

    @property
    def summary(self) -> str:
        """The chart in words, for those who do not see it."""
        parts = (f"{self.names[side]}: {_told(self.points[side])}" for side in self.points)
        return f"{self.metric.title} in {self.metric.unit} by requests in flight. {' '.join(parts)}"


def charts_of(facts: ReportFacts, metrics: Iterable[MetricDefinition]) -> tuple[Chart, ...]:
    """One chart per metric for which the report has at least one figure."""
    charts = (_chart(facts, metric) for metric in metrics)
    return tuple(c for c in charts if any(p.value for side in c.points.values() for p in side))


def _chart(facts: ReportFacts, metric: MetricDefinition) -> Chart:
    sides: tuple[Side, Side] = ("A", "B")
    return Chart(
        metric=metric,
        names={side: facts.contender(side) for side in sides},
        points={
            side: _points([r for r in facts.levels if r.side == side], metric) for side in sides
        },
        answer=_answer(facts.answers, metric),
    )


def _answer(findings: Iterable[Finding], metric: MetricDefinition) -> Answer | None:
    return next((f.answer for f in findings if f.metric.name == metric.name), None)


def _points(rows: Sequence[LevelRow], metric: MetricDefinition) -> tuple[Point, ...]:
    levels = sorted({row.concurrency for row in rows})
    return tuple(_point([r for r in rows if r.concurrency == c], metric) for c in levels)


def _point(rows: Sequence[LevelRow], metric: MetricDefinition) -> Point:
    """Repeats of one level as one point, at their geometric mean."""
    best = min(rows, key=lambda row: _RANK[row.status])
    alike = [getattr(row, metric.name) for row in rows if row.status == best.status]
    values = [float(value) for value in alike if value is not None and value > 0]
    mean = float(np.exp(np.mean(np.log(values)))) if values else None
    return Point(best.concurrency, mean, best.status, best.reason)


def _told(points: Sequence[Point]) -> str:
    told = (
        f"{p.value:.3g} at {p.concurrency}" + ("" if p.status == "valid" else f" ({p.status})")
        if p.value
        else f"{p.status} at {p.concurrency}"
        for p in points
    )
    return ", ".join(told) + "." if points else "not measured."
