"""The 95 % confidence set of the crossover: every concurrency at which zero is not rejected.

Fieller's construction (Fieller 1954) on the interpolated curve: it divides by no slope, and opens
by itself when the slope is too weak for the scatter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep_collector.core.line import Line
    from edgesweep_collector.core.logratio import FloatArray

End: TypeAlias = Literal["low", "high"]

_STEPS_PER_SEGMENT = 256
_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class Interval:
    """A range of concurrencies; an end in ``open`` lies at or beyond what was measured."""

    low: float
    high: float
    open: tuple[End, ...] = ()


def confidence_interval(line: Line, root: float, *, guarded: bool) -> Interval | None:
    """The hull of ``{x : |m(x)| <= half(x) + beta(x)}`` as concurrencies, None without scatter.

    ``half`` is the half-width of the 95 % interval of m, ``beta`` the curvature guard (zero unless
    ``guarded``): a straight line between two levels may miss a bent curve by that much. ``root``
    is log2 of the point estimate, a member by definition. Inside a break of the line nothing is
    known, so a set that reaches a break goes on to the other side of it.
    """
    if line.half is None or line.spread is None:
        return None
    excess = _excess(line, line.half, line.spread, guarded)
    grid = np.union1d(_grid(line.x), [root])
    inside = np.flatnonzero((excess(grid) <= 0.0) | (grid == root))
    first, last = int(inside[0]), int(inside[-1])
    low = float(grid[0]) if first == 0 else _edge(excess, grid[first - 1], grid[first])
    high = float(grid[-1]) if last == grid.size - 1 else _edge(excess, grid[last + 1], grid[last])
    ends: list[End] = ["low"] if first == 0 else []
    ends += ["high"] if last == grid.size - 1 else []
    return Interval(float(np.exp2(low)), float(np.exp2(high)), tuple(ends))


def hull(interval: Interval, bracket: tuple[int, int]) -> Interval:
    """The smallest interval that holds both; an end the bracket widens keeps its openness."""
    low, high = min(interval.low, bracket[0]), max(interval.high, bracket[1])
    return Interval(low, high, interval.open)


def _grid(x: FloatArray) -> FloatArray:
    steps = np.arange(_STEPS_PER_SEGMENT) / _STEPS_PER_SEGMENT
    inner = x[:-1, None] + np.diff(x)[:, None] * steps
    return np.append(inner.ravel(), x[-1])


def _excess(
    line: Line, half: FloatArray, spread: FloatArray, guarded: bool
) -> Callable[[FloatArray], FloatArray]:
    """|m| - half - beta as a function of x: at most zero inside the set."""
    bend = _bend(line) if guarded else np.zeros(line.x.size - 1)
    at_levels = np.abs(line.mean) - half
    in_breaks = np.minimum(at_levels[:-1], at_levels[1:])

    def excess(x: FloatArray) -> FloatArray:
        k = np.clip(np.searchsorted(line.x, x, side="right") - 1, 0, line.x.size - 2)
        w = (x - line.x[k]) / (line.x[k + 1] - line.x[k])
        m = (1 - w) * line.mean[k] + w * line.mean[k + 1]
        s0, s01, s1 = spread[k].T
        square = (1 - w) ** 2 * s0 + 2 * w * (1 - w) * s01 + w**2 * s1
        joined = np.abs(m) - np.sqrt(np.maximum(square, 0.0)) - w * (1 - w) * bend[k]
        return np.where(line.joined[k], joined, in_breaks[k])

    return excess


def _bend(line: Line) -> FloatArray:
    """The guard's height per segment, ``h^2 * min(f2_k, f2_k+1)``.

    f2 is the absolute second divided difference at a level; the ends copy their neighbour. The
    smaller end of a segment counts, since a slot limit makes a kink *at* a level.
    """
    h = np.diff(line.x)
    if h.size < 2:
        return np.zeros_like(h)
    slopes = np.diff(line.mean) / h
    inner = np.abs(np.diff(slopes) / (line.x[2:] - line.x[:-2]))
    f2 = np.concatenate((inner[:1], inner, inner[-1:]))
    bend: FloatArray = h**2 * np.minimum(f2[:-1], f2[1:])
    return bend


def _edge(excess: Callable[[FloatArray], FloatArray], outside: float, inside: float) -> float:
    """The boundary of the set between a point outside it and one inside, by bisection."""
    for _ in range(_BISECTIONS):
        middle = (outside + inside) / 2
        if excess(np.array([middle]))[0] <= 0.0:
            inside = middle
        else:
            outside = middle
    return inside
