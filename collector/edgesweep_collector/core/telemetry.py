"""What InfluxDB sees of the sensors of a device: one point a record, one field a reading.

Every field is a float, so that none can ever change its type; the unit is part of its name, so
that none can change its meaning either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_collector.core.lineprotocol import FieldValue, Point, plain
from edgesweep_collector.core.projection import label_tag

if TYPE_CHECKING:
    from edgesweep.records import Device, SensorValue, Telemetry

MEASUREMENT = "edgesweep_telemetry"
TAGS = ("device", "hardware_class", "performance_state")
"""Tag names that are ours; the labels' are as for levels."""


def telemetry_point(
    device_id: str, device: Device | None, telemetry: Telemetry, time_ns: int
) -> Point:
    """The one point of a record.

    Args:
        device_id: Who measured.
        device: What it had said of itself when the record came; ``None`` if nothing.
        telemetry: The readings; one without a value is no field, never a zero.
        time_ns: As :func:`.projection.point_time_ns` makes it.
    """
    tags = _tags(device_id, device)
    fields: dict[str, FieldValue] = {
        _field(one, tags): float(one.value) for one in telemetry.readings if one.value is not None
    }
    return Point(MEASUREMENT, tags, fields, time_ns)


def _tags(device_id: str, device: Device | None) -> dict[str, str]:
    own = dict.fromkeys(TAGS, "") | {"device": device_id}
    if device is None:
        return own
    own |= {
        "hardware_class": device.hardware_class,
        "performance_state": device.performance_state,
    }
    return own | {label_tag(key): value for key, value in device.labels.items() if key}


def _field(one: SensorValue, tags: dict[str, str]) -> str:
    """``power_vdd_in_w``; a name that is a tag or InfluxDB's own gets ``reading_`` before it."""
    unit = plain(one.unit).lower()
    name = one.name if unit in {"", "1"} else f"{one.name}_{unit}"
    taken = name in tags or name == "time" or name.startswith("_")
    return f"reading_{name}" if taken else name
