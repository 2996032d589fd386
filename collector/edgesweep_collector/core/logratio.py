"""Signed log values of one engine over log2 concurrency, and the log ratio of two engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from edgesweep_collector.core.problem import Curve, Problem, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LogCurve:
    """One engine on one unit, over its own scheduled levels.

    ``x`` is log2 concurrency, ascending; ``z`` the mean of the signed natural log of the repeats,
    NaN where the level failed; ``n`` the repeats behind each mean. ``squares`` sums the squared
    deviations of the repeats from their level's mean, ``dropped`` counts values that were not
    above zero.
    """

    x: FloatArray
    z: FloatArray
    n: FloatArray
    squares: float
    dropped: int

    def at(self, x: FloatArray) -> FloatArray:
        """The curve at ``x`` by straight lines between own levels; NaN where it is not known.

        A level that failed breaks the line on both of its sides; one never scheduled is bridged;
        nothing is extrapolated.
        """
        if self.x.size == 0:
            return np.full(x.shape, np.nan)
        # np.interp returns a level's own value exactly and spreads NaN over the neighbouring gaps.
        values: FloatArray = np.interp(x, self.x, self.z, left=np.nan, right=np.nan)
        return values

    def weights(self, x: FloatArray) -> FloatArray:
        """The (len(x), levels) matrix W with ``at(x) = W @ z`` wherever ``at`` is known."""
        columns = [np.interp(x, self.x, unit) for unit in np.eye(self.x.size)]
        matrix: FloatArray = np.stack(columns, axis=1)
        return matrix

    @property
    def valid(self) -> FloatArray:
        """log2 of the levels that have a value."""
        known: FloatArray = self.x[np.isfinite(self.z)]
        return known

    @property
    def degrees(self) -> int:
        """Degrees of freedom that the repeats leave for their scatter."""
        return int(np.maximum(self.n - 1, 0).sum())


@dataclass(frozen=True, slots=True, eq=False)
class UnitRatio:
    """Both engines on one unit; the log ratio is above zero where B is better."""

    name: str
    a: LogCurve
    b: LogCurve

    def at(self, x: FloatArray) -> FloatArray:
        """The log ratio at ``x`` (log2 concurrency); NaN outside the common range."""
        return self.b.at(x) - self.a.at(x)

    def knots(self) -> FloatArray:
        """The levels of either engine at which the ratio is known, as log2, ascending."""
        x = np.union1d(self.a.x, self.b.x)
        known: FloatArray = x[np.isfinite(self.at(x))]
        return known


def unit_ratios(problem: Problem) -> tuple[UnitRatio, ...]:
    """Both engines' curves on every unit of the problem.

    Logs, because errors are proportional and a factor common to both engines cancels; signed,
    so that higher is better for every metric.
    """
    sign = 1.0 if problem.higher_is_better else -1.0
    return tuple(
        UnitRatio(unit.name, log_curve(unit.a, sign), log_curve(unit.b, sign))
        for unit in problem.units
    )


def log_curve(curve: Curve, sign: float) -> LogCurve:
    """One engine's curve in signed logs; ``sign`` is -1 for a metric where lower is better."""
    levels = sorted(curve)
    cells = [curve[level] or () for level in levels]
    logs = [sign * np.log(np.array([v for v in cell if _usable(v)])) for cell in cells]
    means = [values.mean() if values.size else np.nan for values in logs]
    return LogCurve(
        x=np.log2(np.array(levels, dtype=np.float64)),
        z=np.array(means, dtype=np.float64),
        n=np.array([values.size for values in logs], dtype=np.float64),
        squares=float(sum(((v - v.mean()) ** 2).sum() for v in logs if v.size > 1)),
        dropped=sum(len(cell) for cell in cells) - sum(values.size for values in logs),
    )


def pooled(units: Sequence[Unit], name: str) -> Unit:
    """Several sessions as one unit, their values as repeats; failed in one is failed."""
    return Unit(name, _pooled([u.a for u in units]), _pooled([u.b for u in units]))


def _pooled(curves: Sequence[Curve]) -> Curve:
    merged: dict[int, tuple[float, ...] | None] = {}
    for curve in curves:
        for level, cell in curve.items():
            before = merged.get(level, ())
            merged[level] = None if before is None or cell is None else before + cell
    return merged


def _usable(value: float) -> bool:
    return 0.0 < value < float("inf")


def levels_of(x: FloatArray) -> tuple[int, ...]:
    """Concurrencies behind their log2."""
    return tuple(int(level) for level in np.rint(np.exp2(x)))
