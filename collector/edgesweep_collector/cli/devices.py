"""``devices``: who has reported, and what each last said of itself."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .options import AsJson, Config, one_line_errors, opened_archive, printable

if TYPE_CHECKING:
    from edgesweep_collector.archive.rows import DeviceRow


def devices(config: Config, as_json: AsJson = False) -> None:
    """List every device that was ever heard."""
    with one_line_errors(), opened_archive(config) as archive:
        rows = archive.devices()
    if as_json:
        lines = [_line(row) for row in rows]
        typer.echo(json.dumps({"devices": lines}, indent=2, allow_nan=False))
    else:
        Console().print(_table(rows))


def _line(row: DeviceRow) -> dict[str, object]:
    told, heartbeat = row.device, row.heartbeat
    return {
        "device_id": row.device_id,
        "first_seen_ns": row.first_seen_ns,
        "last_seen_ns": row.last_seen_ns,
        "agent_version": row.agent_version,
        "hardware_class": told.hardware_class if told else None,
        "performance_state": told.performance_state if told else None,
        "labels": dict(told.labels) if told else {},
        "spool_rows": heartbeat.spool_rows if heartbeat else None,
        "dropped": dict(heartbeat.dropped) if heartbeat else {},
    }


def _table(rows: list[DeviceRow]) -> Table:
    table = Table("device", "hardware class", "last seen", "agent", "in its spool")
    for row in rows:
        seen = datetime.fromtimestamp(row.last_seen_ns / 1e9, timezone.utc)
        cells = (
            row.device_id,
            row.device.hardware_class if row.device else "",
            f"{seen:%Y-%m-%d %H:%M:%S}Z",
            row.agent_version,
            str(row.heartbeat.spool_rows) if row.heartbeat else "",
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table
