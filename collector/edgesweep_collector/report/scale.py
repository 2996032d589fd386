"""The plot area of a chart: both axes are logarithmic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from edgesweep_collector.report.chart import Chart

LEFT: Final = 60
RIGHT: Final = 590
TOP: Final = 40
FLOOR: Final = 300

_HALVES: Final = tuple(m / 2 for m in range(2, 20))
_FINE: Final = tuple(m / 10 for m in range(10, 100))
_MANTISSAS: Final = ((1.0, 10.0), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), _HALVES, _FINE)
_MOST_TICKS: Final = 7


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps concurrency and value to pixels, both by logarithm."""

    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, concurrency: float) -> float:
        """The pixel column of a concurrency."""
        share = (math.log2(concurrency) - self.x0) / (self.x1 - self.x0)
        return LEFT + share * (RIGHT - LEFT)

    def y(self, value: float) -> float:
        """The pixel row of a value."""
        share = (math.log10(value) - self.y0) / (self.y1 - self.y0)
        return FLOOR - share * (FLOOR - TOP)


def scale_of(chart: Chart) -> Scale:
    """The scale that shows every point of ``chart`` with a little air around it."""
    points = [p for side in chart.points.values() for p in side]
    x = [math.log2(p.concurrency) for p in points] or [0.0]
    y = [math.log10(p.value) for p in points if p.value] or [0.0]
    pad = max(0.08 * (max(y) - min(y)), 0.04)
    return Scale(min(x) - 0.25, max(x) + 0.25, min(y) - pad, max(y) + pad)


def ticks(low: float, high: float) -> tuple[float, ...]:
    """Round values between ``low`` and ``high``, at least three where the range allows."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    found: tuple[float, ...] = ()
    for mantissas in _MANTISSAS:
        values = (m * 10.0**e for e in range(first, last + 1) for m in mantissas)
        found = tuple(sorted({float(f"{v:.6g}") for v in values if low <= v <= high}))
        if len(found) >= 3:
            break
    return found[:: math.ceil(len(found) / _MOST_TICKS)] if found else ()
