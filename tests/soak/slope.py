"""The slope of a series whose samples depend on each other, with an interval that is honest."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, NamedTuple

from edgesweep.student import t_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

FEWEST = 20
_WAVES = 4


class Slope(NamedTuple):
    """Units of the series a second, and the 95 % interval."""

    value: float
    low: float
    high: float


def slope(points: Sequence[tuple[float, float]]) -> Slope:
    """The least-squares slope of (seconds, value), sampled at even steps.

    Memory now depends on memory a moment ago, so the usual interval is too narrow by far. The
    variance comes from the weight of the residuals in four slow waves, cosines that are orthogonal
    to a constant and to a line, and the quantile from Student's t with four degrees of freedom
    (Sun 2011, Journal of Econometrics 164:345; Lazarus, Lewis, Stock and Watson 2018, Journal of
    Business and Economic Statistics 36:541). It holds whatever the dependence is, as long as it
    fades within about an eighth of the series.

    Raises:
        ValueError: there are too few points.
    """
    n = len(points)
    if n < FEWEST:
        raise ValueError(f"too few points for a slope: {n} of {FEWEST}")
    found, half = _fitted(points)
    return Slope(found, found - half, found + half)


def _fitted(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    n = len(points)
    mean_s = statistics.fmean(at_s for at_s, _ in points)
    mean = statistics.fmean(value for _, value in points)
    square_s = sum((at_s - mean_s) ** 2 for at_s, _ in points)
    found = sum((at_s - mean_s) * (value - mean) for at_s, value in points) / square_s
    left = [value - mean - found * (at_s - mean_s) for at_s, value in points]
    weights = (_weight(left, 2 * wave) ** 2 for wave in range(1, _WAVES + 1))
    variance = statistics.fmean(weights) * 2 / n
    return found, t_quantile(0.975, _WAVES) * math.sqrt(variance / square_s)


def _weight(left: Sequence[float], halves: int) -> float:
    """Of a cosine with so many half periods; an even number is orthogonal to a line."""
    n = len(left)
    return sum(value * math.cos(math.pi * halves * (at + 0.5) / n) for at, value in enumerate(left))
