"""``devices``: who has reported, and what each last said of itself."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import typer

from .options import AsJson, Config, add_row, new_table, one_line_errors, opened_archive, show

if TYPE_CHECKING:
    from rich.table import Table

    from edgesweep.records import Heartbeat, SensorValue
    from edgesweep_collector.archive.rows import DeviceRow


def devices(config: Config, as_json: AsJson = False) -> None:
    """List every device that was ever heard."""
    with one_line_errors(), opened_archive(config) as archive:
        rows = archive.devices()
    if as_json:
        lines = [_line(row) for row in rows]
        typer.echo(json.dumps({"devices": lines}, indent=2, allow_nan=False))
    else:
        show(_table(rows))


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
        "sensor_up": dict(sorted(heartbeat.sensor_up.items())) if heartbeat else {},
        "telemetry_ns": row.telemetry_ns,
        "readings": [_reading(one) for one in row.telemetry.readings] if row.telemetry else [],
    }


def _reading(one: SensorValue) -> dict[str, object]:
    value = one.value if one.value is not None and math.isfinite(one.value) else None
    return {"name": one.name, "unit": one.unit, "value": value, "reason": one.reason}


def _table(rows: list[DeviceRow]) -> Table:
    table = new_table("device", "hardware class", "last seen", "agent", "in its spool", "sensors")
    for row in rows:
        seen = datetime.fromtimestamp(row.last_seen_ns / 1e9, timezone.utc)
        add_row(
            table,
            row.device_id,
            row.device.hardware_class if row.device else "",
            f"{seen:%Y-%m-%d %H:%M:%S}Z",
            row.agent_version,
            str(row.heartbeat.spool_rows) if row.heartbeat else "",
            _sensors(row.heartbeat),
        )
    return table


def _sensors(heartbeat: Heartbeat | None) -> str:
    """``3 of 4 up: not rapl``; nothing for a device that has none, or does not tell."""
    if heartbeat is None or not heartbeat.sensor_up:
        return ""
    down = sorted(name for name, up in heartbeat.sensor_up.items() if not up)
    told = f"{len(heartbeat.sensor_up) - len(down)} of {len(heartbeat.sensor_up)} up"
    return f"{told}: not {', '.join(down)}" if down else told
