"""Power and energy readings over an exact window: joules, or the reason for there being none.

Power is integrated by the trapezoid rule, a counter's readings are subtracted; both are
interpolated at the edges of the window. Readings that gap give no figure. What a boundary
includes differs (a module's input, its rails, a processor's package, the wall), so that figures
of two boundaries are never added up, nor one taken where the other is missing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .window import Window

PERIOD_S = 0.1
"""What is wanted of a power sensor inside a window: ten readings a second."""
GAP_PERIODS = 2.5
"""Readings further apart than so many periods leave unknown what was between them."""
COUNTER_GAP_S = 30.0
"""A counter misses nothing between two readings, unless it turned over or was reset meanwhile."""
MIN_READINGS = 2
"""Fewer power readings within a window are a guess at it, no integral."""
BOUNDARIES = ("wall", "input", "rails", "package", "gpu")
"""From the whole box to a part of it; the first that a box has is the one that counts."""

Point = tuple[int, float]
"""Monotonic or wall ns, and a value."""

_SCALE = {"W": 1.0, "mW": 1e-3, "J": 1.0, "mJ": 1e-3, "uJ": 1e-6}
_COUNTERS = frozenset({"J", "mJ", "uJ"})
_NS = 1e9


@dataclass(frozen=True, slots=True)
class Series:
    """The readings of one sensor, ascending in time.

    Attributes:
        name: Such as ``power_vdd_in``; what follows the first ``_`` names what is measured, so
            that ``energy_gpu`` and ``power_gpu`` are two views of one thing.
        unit: ``W`` or ``mW`` for power; ``J``, ``mJ`` (NVML) or ``uJ`` (RAPL) for a counter.
        turn: Where the counter begins anew, in its unit; ``None`` if it never does.
    """

    name: str
    unit: str
    boundary: str
    points: Sequence[Point]
    turn: float | None = None


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of one window.

    Attributes:
        joules: ``None`` where it could not be measured: then ``reason`` says why.
        boundary: What is inside of it; "" where nothing measures power at all.
        n: Readings within the window; of several parts, those of the part with the fewest.
        rate_hz: How often the value changed, which is less than it was read where a sensor
            averages or updates slowly; ``None`` if it never changed.
        coverage: Share of the window in which the readings were close enough together.
    """

    joules: float | None
    mean_w: float | None
    boundary: str
    reason: str = ""
    n: int = 0
    rate_hz: float | None = None
    coverage: float = 0.0


def best(series: Iterable[Series], window: Window, *, period_s: float = PERIOD_S) -> Energy:
    """Energy at the widest boundary that the box measures at all.

    Where that one has a gap there is no figure: a narrower one beside it would make one level
    of a curve mean something else than the others.
    """
    found = by_boundary(series, window, period_s=period_s)
    known = [name for name in BOUNDARIES if name in found]
    if not known:
        return Energy(None, None, "", "nothing on this box measures power")
    return found[known[0]]


def by_boundary(
    series: Iterable[Series], window: Window, *, period_s: float = PERIOD_S
) -> dict[str, Energy]:
    """Energy by boundary, each the sum of its parts: the rails of a board, two packages."""
    parts: dict[str, dict[str, list[Series]]] = {}
    for one in series:
        if one.boundary and one.points:
            part = one.name.partition("_")[2]
            parts.setdefault(one.boundary, {}).setdefault(part, []).append(one)
    return {
        boundary: _sum([_of_part(views, window, period_s) for views in found.values()], window)
        for boundary, found in parts.items()
    }


def measure(series: Series, window: Window, *, period_s: float = PERIOD_S) -> Energy:
    """Energy of one sensor over the window."""
    scale = _SCALE[series.unit]
    counts = series.unit in _COUNTERS
    points = [(t, value * scale) for t, value in series.points if math.isfinite(value)]
    if counts and series.turn is not None:
        points = _unturned(points, series.turn * scale)
    used = _around(points, window)
    measured = _difference if counts else _integral
    told = measured(used, window, GAP_PERIODS * period_s)
    found = Energy(
        None,
        None,
        series.boundary,
        n=sum(window.start_ns <= t <= window.end_ns for t, _ in used),
        rate_hz=_changes_per_s(used),
        coverage=_coverage(used, window, COUNTER_GAP_S if counts else GAP_PERIODS * period_s),
    )
    if isinstance(told, str):
        return replace(found, reason=f"{series.name}: {told}")
    return replace(found, joules=told, mean_w=told / window.seconds)


def per(energy: Energy, count: float | None) -> float | None:
    """Joules per token, request or task of the same window; ``None`` where there were none."""
    if energy.joules is None or not count or count < 0:
        return None
    return energy.joules / count


def figures(energy: Energy, counts: Mapping[str, float | None]) -> dict[str, float]:
    """Metrics of a level by name: ``power_w``, and ``energy_j_per_<key>`` for each count."""
    values = {f"energy_j_per_{key}": per(energy, count) for key, count in counts.items()}
    values["power_w"] = energy.mean_w
    return {name: value for name, value in values.items() if value is not None}


def _of_part(views: Sequence[Series], window: Window, period_s: float) -> Energy:
    """A counter is exact where it works; power is integrated where it does not."""
    ordered = sorted(views, key=lambda one: one.unit not in _COUNTERS)
    found = [measure(one, window, period_s=period_s) for one in ordered]
    return next((energy for energy in found if energy.joules is not None), found[0])


def _sum(parts: Sequence[Energy], window: Window) -> Energy:
    reasons = [part.reason for part in parts if part.joules is None]
    rates = [part.rate_hz for part in parts if part.rate_hz is not None]
    joules = None if reasons else math.fsum(part.joules or 0.0 for part in parts)
    return Energy(
        joules,
        None if joules is None else joules / window.seconds,
        parts[0].boundary,
        reason="; ".join(reasons),
        n=min(part.n for part in parts),
        rate_hz=min(rates, default=None),
        coverage=min(part.coverage for part in parts),
    )


def _around(points: Sequence[Point], window: Window) -> Sequence[Point]:
    """The points of the window, and the nearest one outside of each edge."""
    times = [t for t, _ in points]
    first = max(0, bisect_right(times, window.start_ns) - 1)
    return points[first : bisect_left(times, window.end_ns) + 1]


def _integral(points: Sequence[Point], window: Window, limit_s: float) -> float | str:
    if (refused := _refusal(points, window, limit_s)) is not None:
        return refused
    within = sum(window.start_ns <= t <= window.end_ns for t, _ in points)
    if within < MIN_READINGS:
        return f"{within} readings within {window.seconds:.2f} s"
    return math.fsum(
        (_at(pair, start) + _at(pair, end)) / 2 * (end - start) / _NS
        for pair, start, end in _pieces(points, window)
    )


def _difference(points: Sequence[Point], window: Window, limit_s: float) -> float | str:
    if (refused := _refusal(points, window, COUNTER_GAP_S)) is not None:
        return refused
    for (before, low), (t, value) in pairwise(points):
        if value < low:
            return f"the counter was set back {_offset(t, window)}"
        at_edge = before <= window.start_ns < t or before < window.end_ns <= t
        if at_edge and (t - before) / _NS > limit_s:
            return f"no reading near the edge of the window: {(t - before) / _NS:.2f} s apart"
    pieces = list(_pieces(points, window))
    joules = _at(pieces[-1][0], pieces[-1][2]) - _at(pieces[0][0], pieces[0][1])
    return joules if joules > 0 else "the counter did not move"


def _refusal(points: Sequence[Point], window: Window, limit_s: float) -> str | None:
    """Why the readings do not tell of this window; ``None`` if they do."""
    if window.seconds <= 0:
        return "an empty window"
    if len(points) < MIN_READINGS:
        return "no readings in the window"
    if points[0][0] > window.start_ns:
        return f"the first reading is {_offset(points[0][0], window)}"
    if points[-1][0] < window.end_ns:
        late_s = (window.end_ns - points[-1][0]) / _NS
        return f"the last reading is {late_s:.2f} s before the end of the window"
    gap_s, at = max(((t - before) / _NS, before) for (before, _), (t, _) in pairwise(points))
    if gap_s > limit_s:
        return f"a gap of {gap_s:.2f} s {_offset(at, window)}, over {limit_s:.2f} s"
    return None


def _offset(t_ns: int, window: Window) -> str:
    """Where in the window: readings a little before its start tell of it too."""
    return f"{(t_ns - window.start_ns) / _NS:.2f} s into the window"


_Piece = tuple[tuple[Point, Point], int, int]


def _pieces(points: Sequence[Point], window: Window) -> Iterator[_Piece]:
    """Each pair of neighbours with the part of the window that lies between them."""
    for before, after in pairwise(points):
        start, end = max(before[0], window.start_ns), min(after[0], window.end_ns)
        if start < end:
            yield (before, after), start, end


def _at(pair: tuple[Point, Point], t_ns: int) -> float:
    (before, low), (after, high) = pair
    return low + (high - low) * (t_ns - before) / (after - before)


def _coverage(points: Sequence[Point], window: Window, limit_s: float) -> float:
    if window.seconds <= 0:
        return 0.0
    near = (
        end - start
        for (before, after), start, end in _pieces(points, window)
        if (after[0] - before[0]) / _NS <= limit_s
    )
    return sum(near) / (window.end_ns - window.start_ns)


def _changes_per_s(points: Sequence[Point]) -> float | None:
    if len(points) < MIN_READINGS or points[0][0] == points[-1][0]:
        return None
    changes = sum(value != before for (_, before), (_, value) in pairwise(points))
    return changes * _NS / (points[-1][0] - points[0][0]) if changes else None


def _unturned(points: Sequence[Point], turn: float) -> list[Point]:
    """A counter that begins anew at ``turn``, as one that never does."""
    turns, last, found = 0, -math.inf, []
    for t, value in points:
        turns += value < last
        last = value
        found.append((t, value + turns * turn))
    return found
