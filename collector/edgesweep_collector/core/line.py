"""The mean log ratio over units as one broken line over log2 concurrency, with its scatter."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from edgesweep.student import t_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep_collector.core.logratio import BoolArray, FloatArray, UnitRatio

# Below this the mean log ratio is zero: it is rounding, not a lead (0.0000001 %).
ZERO = 1e-9
_TWO_SIDED = 0.975


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """The mean log ratio m at K levels, straight between neighbours that are joined.

    ``x`` (K) is log2 concurrency, ``mean`` (K) is m, above zero where B is better. ``joined``
    (K-1) is false where a failed level breaks the line. ``half`` (K) is the half-width of the 95 %
    interval of m at each level; ``spread`` (K-1, 3) the squared half-widths at both ends of a
    segment and their product term, so that with weights (1-w, w) the squared half-width inside is
    ``(1-w)^2*s0 + 2w(1-w)*s01 + w^2*s1``. Both are None where nothing was repeated.
    """

    x: FloatArray
    mean: FloatArray
    joined: BoolArray
    half: FloatArray | None
    spread: FloatArray | None


def needed_units(count: int) -> int:
    """How many of ``count`` units must know a point for the class to know it: two thirds."""
    return 1 if count == 1 else max(2, math.ceil(2 * count / 3))


def covering(ratios: Sequence[UnitRatio], need: int) -> tuple[UnitRatio, ...]:
    """The units that cover the widest common range that at least ``need`` of them cover.

    Of ranges that are as wide, the one that more units cover; then the lowest. The work is
    N log N in the number of units: a fleet is one problem.
    """
    ranges = [(k[0], k[-1]) if (k := ratio.knots()).size else None for ratio in ratios]
    best: tuple[float, int, float, float] | None = None
    ends: list[float] = []
    by_low = sorted(span for span in ranges if span is not None)
    for low, group in groupby(by_low, key=itemgetter(0)):
        for _, high in group:
            insort(ends, high)
        if len(ends) < need or (high := ends[-need]) < low:
            continue
        found = (high - low, len(ends) - bisect_left(ends, high), low, high)
        if best is None or found[:2] > best[:2]:
            best = found
    if best is None:
        return ()
    _, _, low, high = best
    return tuple(
        ratio
        for ratio, span in zip(ratios, ranges, strict=True)
        if span is not None and span[0] <= low and span[1] >= high
    )


def units_line(ratios: Sequence[UnitRatio], need: int) -> Line:
    """The mean over units, with Student's t over units as its scatter when there are two or more.

    A level, and a piece of line between two levels, is known where at least ``need`` units know
    it: a failed level enters no mean and is not filled in.
    """
    x = _common_knots(ratios)
    rho = np.stack([ratio.at(x) for ratio in ratios])
    enough = np.isfinite(rho).sum(axis=0) >= need
    x, rho = x[enough], rho[:, enough]
    middle = (x[:-1] + x[1:]) / 2
    spans = np.isfinite(np.stack([ratio.at(middle) for ratio in ratios]))
    mean, joined = _snapped(np.nanmean(rho, axis=0)), spans.sum(axis=0) >= need
    if len(ratios) < 2:
        return Line(x, mean, joined, None, None)
    half = np.sqrt([_mean_covariance(column[:, None])[0, 0] for column in rho.T])
    pieces = [
        _packed(_mean_covariance(rho[spans[:, k], k : k + 2])) if joined[k] else (np.nan,) * 3
        for k in range(len(joined))
    ]
    return Line(x, mean, joined, half, np.array(pieces, dtype=np.float64).reshape(-1, 3))


def repeats_line(ratio: UnitRatio) -> Line:
    """One unit, with the pooled variance of its repeats as scatter, if it has any.

    ``S2 = sum of squares about the level means / degrees of freedom`` over both engines, and the
    variance of an interpolated value follows from its weights on the levels it leans on.
    """
    line = units_line([ratio], need=1)
    degrees = ratio.a.degrees + ratio.b.degrees
    if degrees == 0:
        return line
    variance = (ratio.a.squares + ratio.b.squares) / degrees
    t = t_quantile(_TWO_SIDED, degrees)
    covariance = np.zeros((line.x.size, line.x.size))
    for curve in (ratio.a, ratio.b):
        weights = curve.weights(line.x)
        # A failed level has no repeats and no weight at a level of the line.
        covariance += (weights / np.maximum(curve.n, 1)) @ weights.T
    scaled = t * t * variance * covariance
    pieces = [_packed(scaled[k : k + 2, k : k + 2]) for k in range(line.x.size - 1)]
    return Line(
        line.x,
        line.mean,
        line.joined,
        half=np.sqrt(np.diag(scaled)),
        spread=np.array(pieces, dtype=np.float64).reshape(-1, 3),
    )


def _common_knots(ratios: Sequence[UnitRatio]) -> FloatArray:
    """Every level of every unit inside the range that all of them cover."""
    knots = [ratio.knots() for ratio in ratios]
    low, high = max(k[0] for k in knots), min(k[-1] for k in knots)
    x = np.unique(np.concatenate(knots))
    inner: FloatArray = x[(x >= low) & (x <= high)]
    return inner


def _mean_covariance(rho: FloatArray) -> FloatArray:
    """t^2 times the covariance of the column means of ``rho`` (units, columns), NaN rows left out.

    Student's t with one degree of freedom fewer than there are units.
    """
    rows = rho[np.isfinite(rho).all(axis=1)]
    t = t_quantile(_TWO_SIDED, rows.shape[0] - 1)
    centred = rows - rows.mean(axis=0)
    covariance: FloatArray = centred.T @ centred / (rows.shape[0] - 1)
    return t * t * covariance / rows.shape[0]


def _packed(square: FloatArray) -> tuple[float, float, float]:
    return float(square[0, 0]), float(square[0, 1]), float(square[1, 1])


def _snapped(mean: FloatArray) -> FloatArray:
    return np.where(np.abs(mean) < ZERO, 0.0, mean)
