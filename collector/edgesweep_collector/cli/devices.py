"""``devices``: who has reported, what each last said of itself, and what never came."""

from __future__ import annotations

import json
import math
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from edgesweep.events import ranges_text

from .options import AsJson, Config, add_row, new_table, opened_archive, show

if TYPE_CHECKING:
    from rich.table import Table

    from edgesweep.records import Heartbeat, SensorValue
    from edgesweep_collector.archive.rows import DeviceRow, EpochGaps

_DAY_NS = 24 * 3600 * 10**9
_SHOWN_RANGES = 8
_COLUMNS = (
    "device",
    "hardware class",
    "last seen",
    "agent",
    "in its spool",
    "sensors",
    "clock",
    "not well",
)


def devices(
    config: Config,
    gaps: Annotated[
        bool, typer.Option("--gaps", help="List records that never came, instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List every device that was ever heard."""
    with opened_archive(config) as archive:
        rows, missing = ([], archive.gaps()) if gaps else (archive.devices(), [])
    if as_json:
        found = {"gaps": [_gap(one) for one in missing]}
        told = found if gaps else {"devices": [_line(row) for row in rows]}
        typer.echo(json.dumps(told, indent=2, allow_nan=False))
    else:
        show(_gap_table(missing) if gaps else _table(rows, time.time_ns()))


def _gap(one: EpochGaps) -> dict[str, object]:
    return {
        "device_id": one.device_id,
        "epoch": f"{one.epoch:016x}",
        "n_missing": one.n_missing,
        "missing": [
            {"first": span.first, "last": span.last, "n": span.n, "since_ns": span.since_ns}
            for span in one.missing
        ],
        "reconciled": dict(one.reconciled),
    }


def _gap_table(found: list[EpochGaps]) -> Table:
    table = new_table("device", "epoch", "missing", "numbers", "since", "accounted for")
    for one in found:
        add_row(
            table,
            one.device_id,
            f"{one.epoch:016x}",
            str(one.n_missing),
            _numbers(one),
            _instant(min(span.since_ns for span in one.missing)) if one.missing else "",
            ", ".join(f"{n} {reason}" for reason, n in sorted(one.reconciled.items())),
        )
    return table


def _numbers(one: EpochGaps) -> str:
    shown = [(span.first, span.last) for span in one.missing[:_SHOWN_RANGES]]
    more = len(one.missing) - len(shown)
    return ranges_text(shown) + (f" and {more} more" if more else "")


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
        "conflict_ns": row.conflict_ns,
        "clock": row.clock.value if row.clock else None,
        "skew_s": None if row.skew_ns is None else row.skew_ns / 1e9,
        "troubles": dict(sorted(heartbeat.troubles.items())) if heartbeat else {},
        "spool_rows": heartbeat.spool_rows if heartbeat else None,
        "dropped": dict(heartbeat.dropped) if heartbeat else {},
        "sensor_up": dict(sorted(heartbeat.sensor_up.items())) if heartbeat else {},
        "telemetry_ns": row.telemetry_ns,
        "readings": [_reading(one) for one in row.telemetry.readings] if row.telemetry else [],
    }


def _reading(one: SensorValue) -> dict[str, object]:
    value = one.value if one.value is not None and math.isfinite(one.value) else None
    return {"name": one.name, "unit": one.unit, "value": value, "reason": one.reason}


def _table(rows: list[DeviceRow], now_ns: int) -> Table:
    table = new_table(
        "device",
        "hardware class",
        "last seen",
        "agent",
        "in its spool",
        "sensors",
        "clock",
        "not well",
    )
    for row in rows:
        add_row(
            table,
            row.device_id,
            row.device.hardware_class if row.device else "",
            _instant(row.last_seen_ns),
            row.agent_version,
            str(row.heartbeat.spool_rows) if row.heartbeat else "",
            _sensors(row.heartbeat),
            _clock(row),
            _not_well(row, now_ns),
        )
    return table


def _clock(row: DeviceRow) -> str:
    """``synced, 0.3 s behind``, by its last heartbeat, whose way counts as behind."""
    if row.clock is None or row.skew_ns is None:
        return ""
    skew_s = row.skew_ns / 1e9
    how = "behind" if skew_s >= 0 else "ahead"
    return f"{row.clock.value}, {abs(skew_s):.1f} s {how}"


def _not_well(row: DeviceRow, now_ns: int) -> str:
    troubles = row.heartbeat.troubles if row.heartbeat else {}
    told = [f"{part}: {text}" for part, text in sorted(troubles.items())]
    if row.conflict_ns is not None and row.conflict_ns > now_ns - _DAY_NS:
        told.insert(0, "conflict: two machines report under this id")
    return "; ".join(told)


def _instant(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns / 1e9, timezone.utc):%Y-%m-%d %H:%M:%S}Z"


def _sensors(heartbeat: Heartbeat | None) -> str:
    """``3 of 4 up: not rapl``; nothing for a device that has none, or does not tell."""
    if heartbeat is None or not heartbeat.sensor_up:
        return ""
    down = sorted(name for name, up in heartbeat.sensor_up.items() if not up)
    told = f"{len(heartbeat.sensor_up) - len(down)} of {len(heartbeat.sensor_up)} up"
    return f"{told}: not {', '.join(down)}" if down else told
