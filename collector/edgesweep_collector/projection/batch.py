"""What is read from the archive in one go, as lines: of levels, and of telemetry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_collector.core.lineprotocol import line
from edgesweep_collector.core.projection import level_point, point_time_ns, unknown_metrics
from edgesweep_collector.core.telemetry import telemetry_point
from edgesweep_collector.projection.settle import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep_collector.core.lineprotocol import Point
    from edgesweep_collector.projection.base import Source


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows read in one go, as lines; ``last`` is the row that ends it, ``rows`` how many."""

    last: int
    rows: int
    entries: tuple[Entry, ...]
    dropped_fields: int
    unknown_metrics: int = 0


def levels(source: Source, row_id: int, limit: int) -> Batch | None:
    """The next levels after a row; ``None`` if there are none yet."""
    rows = source.levels_after(row_id, limit)
    points = [
        (row.row_id, level_point(row.level, point_time_ns(row.effective_wall_ns, row.row_id)))
        for row in rows
    ]
    return _batch(points, sum(len(unknown_metrics(row.level)) for row in rows))


def telemetry(source: Source, row_id: int, limit: int) -> Batch | None:
    """The next telemetry after a row; ``None`` if there is none yet."""
    rows = source.telemetry_after(row_id, limit)
    points = [
        (
            row.row_id,
            telemetry_point(
                row.device_id,
                row.device,
                row.telemetry,
                point_time_ns(row.effective_wall_ns, row.row_id),
            ),
        )
        for row in rows
    ]
    return _batch(points)


def _batch(points: Sequence[tuple[int, Point]], unknown: int = 0) -> Batch | None:
    if not points:
        return None
    # A level always has fields (its facts); telemetry has none when no sensor had a value.
    made = [(row_id, point, line(point)) for row_id, point in points]
    return Batch(
        last=points[-1][0],
        rows=len(points),
        entries=tuple(Entry(row_id, found.text) for row_id, _, found in made if found),
        dropped_fields=sum(
            found.dropped_fields if found else len(point.fields) for _, point, found in made
        ),
        unknown_metrics=unknown,
    )
