"""Where a broken line of mean log ratios changes sign, and where it reaches a given height."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from edgesweep_collector.core.logratio import FloatArray, levels_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgesweep_collector.core.line import Line
    from edgesweep_collector.core.problem import Side

Direction: TypeAlias = Literal["A_TO_B", "B_TO_A"]


@dataclass(frozen=True, slots=True)
class Crossing:
    """One change of sign of the mean log ratio.

    ``x`` is log2 of the concurrency where it happens, or None where a failed level lies between
    the two signs: then only ``bracket``, the levels on either side, is known.
    """

    x: float | None
    direction: Direction
    bracket: tuple[int, int]

    @property
    def concurrency(self) -> float | None:
        """The crossing as a number of simultaneous requests."""
        return None if self.x is None else float(np.exp2(self.x))


def direction_to(winner: Side) -> Direction:
    """The direction in which ``winner`` takes the lead."""
    return "A_TO_B" if winner == "B" else "B_TO_A"


def crossings(line: Line) -> tuple[Crossing, ...]:
    """Every change of sign, in order of concurrency.

    A level at which the mean is zero between opposite signs is itself the root; a zero between
    equal signs is no crossing.
    """
    signed = [k for k in range(line.x.size) if line.mean[k] != 0.0]
    return tuple(
        _crossing(line, i, j)
        for i, j in pairwise(signed)
        if (line.mean[i] < 0.0) != (line.mean[j] < 0.0)
    )


def _crossing(line: Line, i: int, j: int) -> Crossing:
    """The crossing between levels i and j of opposite sign, with only zeros between them."""
    direction = direction_to("B" if line.mean[i] < 0.0 else "A")
    levels = levels_of(line.x)
    if j > i + 1:
        bracket = (levels[i + 1], levels[max(j - 1, i + 2)])
        return Crossing(float(line.x[i + 1] + line.x[j - 1]) / 2, direction, bracket)
    if not line.joined[i]:
        return Crossing(None, direction, (levels[i], levels[j]))
    m0, m1 = abs(line.mean[i]), abs(line.mean[j])
    x = line.x[i] + (line.x[j] - line.x[i]) * m0 / (m0 + m1)
    return Crossing(float(x), direction, (levels[i], levels[j]))


def least_regret(line: Line, candidates: Sequence[Crossing], direction: Direction) -> Crossing:
    """Of several located crossings in one direction, the one where switching costs least.

    The regret of using the first engine up to t and the second beyond is, but for a constant,
    the integral of m up to t (of -m from B to A); its minima are exactly these crossings.
    """
    sign = 1.0 if direction == "A_TO_B" else -1.0
    return min(candidates, key=lambda c: sign * _integral(line, c.x if c.x is not None else 0.0))


def _integral(line: Line, end: float) -> float:
    x = np.append(line.x[line.x < end], end)
    m = np.interp(x, line.x, line.mean)
    return float(((m[1:] + m[:-1]) / 2 * np.diff(x)).sum())


def reached_before(line: Line, start: float, height: float) -> float | None:
    """The nearest x at or below ``start`` where m is ``height``, along the unbroken line."""
    floor = max((float(x) for x in _breaks(line, right=True) if x <= start), default=-np.inf)
    found = [x for x in _passes(line, height) if floor <= x <= start]
    return max(found, default=None)


def reached_after(line: Line, start: float, height: float) -> float | None:
    """The nearest x at or above ``start`` where m is ``height``, along the unbroken line."""
    ceiling = min((float(x) for x in _breaks(line, right=False) if x >= start), default=np.inf)
    found = [x for x in _passes(line, height) if start <= x <= ceiling]
    return min(found, default=None)


def _breaks(line: Line, right: bool) -> FloatArray:
    """The levels on the right, or left, of every break of the line."""
    ends = line.x[1:] if right else line.x[:-1]
    return ends[~line.joined]


def _passes(line: Line, height: float) -> Iterator[float]:
    for k in range(line.x.size - 1):
        m0, m1 = float(line.mean[k]) - height, float(line.mean[k + 1]) - height
        if line.joined[k] and m0 != m1 and m0 * m1 <= 0.0:
            yield float(line.x[k] + (line.x[k + 1] - line.x[k]) * m0 / (m0 - m1))
