"""A meter's readings laid over the levels of a run: the figures at the boundary ``wall``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .energy import Energy, figures, measure
from .meter_csv import shifted, step_ns
from .window import Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .meter_csv import Trace

SEARCH_S = 60.0
"""How far a clock may be off for its step to be found: further away are the steps of others."""
_NS = 1_000_000_000


def aligned(trace: Trace, edge_ns: int) -> tuple[Trace, float] | None:
    """The trace on the device's clock, with the offset in s; ``None`` if no step is found.

    Args:
        trace: With a clock that is off, or with none.
        edge_ns: When a load began, by the device's clock.
    """
    points = trace.series.points
    near = (points[0][0], points[-1][0])
    if not trace.relative:
        reach = round(SEARCH_S * _NS)
        near = (edge_ns - reach, edge_ns + reach)
    step = step_ns(trace, *near)
    if step is None:
        return None
    return shifted(trace, edge_ns - step), (edge_ns - step) / _NS


def first_load_ns(levels: Sequence[Mapping[str, Any]]) -> int | None:
    """When the first level that was measured began, by the device's clock."""
    starts = [_whole(level.get("started_at_ns")) for level in levels if _window(level)]
    return min((start for start in starts if start is not None), default=None)


def with_wall(level: Mapping[str, Any], trace: Trace) -> dict[str, Any]:
    """A level of a run's JSON with ``wall``, and where that has a figure, with it in place.

    What enters the box includes all that any sensor in it sees, so that its figures take the
    place of theirs; ``attributes.energy_boundary`` says so.
    """
    energy = of_level(level, trace)
    counts = _counts(level)
    told = figures(energy, counts)
    found = {**level, "wall": asdict(energy) | {f"energy_j_per_{k}": None for k in counts} | told}
    if energy.joules is not None:
        found |= {name: value for name, value in told.items() if name in level}
        found["attributes"] = {**level.get("attributes", {}), "energy_boundary": "wall"}
    return found


def of_level(level: Mapping[str, Any], trace: Trace) -> Energy:
    """Energy of a level's steady window."""
    window = _window(level)
    if window is None:
        return Energy(None, None, "wall", "the level has no window: nothing was measured in it")
    return measure(trace.series, window, period_s=trace.period_s)


def _window(level: Mapping[str, Any]) -> Window | None:
    start, end = _whole(level.get("window_start_ns")), _whole(level.get("window_end_ns"))
    return None if start is None or end is None else Window(start, end)


def _counts(level: Mapping[str, Any]) -> dict[str, float | None]:
    """Tokens of the window, as its rate says."""
    window, rate = _window(level), level.get("output_tokens_per_s")
    if window is None or not isinstance(rate, (int, float)):
        return {"token": None}
    return {"token": rate * window.seconds}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
