"""What is read from the archive in one go, as lines: of levels, and of telemetry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_collector.core.lineprotocol import line
from edgesweep_collector.core.projection import level_point, place, unknown_metrics
from edgesweep_collector.core.telemetry import telemetry_line, telemetry_series
from edgesweep_collector.projection.settle import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep_collector.core.lineprotocol import Line
    from edgesweep_collector.core.telemetry import Series
    from edgesweep_collector.projection.base import ArchivedTelemetry, Source


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows read in one go, as lines.

    Attributes:
        last: The row that ends it.
        rows: How many there are; one that has nothing to write has no entry.
        dropped_fields: Values that line protocol cannot express.
        dropped_points: Rows of which that left nothing.
        unknown_metrics: Values of metrics that this version does not know.
    """

    last: int
    rows: int
    entries: tuple[Entry, ...]
    dropped_fields: int
    dropped_points: int = 0
    unknown_metrics: int = 0


def levels(source: Source, row_id: int, limit: int) -> Batch | None:
    """The next levels after a row; ``None`` if there are none yet."""
    rows = source.levels_after(row_id, limit)
    lines = [
        (row.row_id, line(level_point(row.level, place(row.effective_wall_ns, row.tie))))
        for row in rows
    ]
    return of_lines(lines, sum(len(unknown_metrics(row.level)) for row in rows))


def telemetry(source: Source, row_id: int, limit: int) -> Batch | None:
    """The next telemetry after a row; ``None`` if there is none yet."""
    rows = source.telemetry_after(row_id, limit)
    # Many rows share one description of their device.
    series: dict[tuple[str, int, str], Series] = {}
    return of_lines([(row.row_id, _told(row, series)) for row in rows])


def _told(row: ArchivedTelemetry, series: dict[tuple[str, int, str], Series]) -> Line:
    at = place(row.effective_wall_ns, row.tie)
    known = row.device_id, id(row.device), at.spool
    if known not in series:
        series[known] = telemetry_series(row.device_id, row.device, at.spool)
    return telemetry_line(series[known], row.telemetry, at.time_ns)


def of_lines(lines: Sequence[tuple[int, Line]], unknown: int = 0) -> Batch | None:
    """The lines of rows, ascending; ``None`` of none.

    Args:
        lines: Each with its row.
        unknown: Values of metrics that this version does not know.
    """
    if not lines:
        return None
    return Batch(
        last=lines[-1][0],
        rows=len(lines),
        entries=tuple([Entry(row_id, made.text) for row_id, made in lines if made.text]),
        dropped_fields=sum(made.dropped_fields for _, made in lines),
        dropped_points=sum(made.text is None and made.dropped_fields > 0 for _, made in lines),
        unknown_metrics=unknown,
    )
