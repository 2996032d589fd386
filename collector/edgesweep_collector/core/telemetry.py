"""What InfluxDB sees of the sensors of a device: one point a record, one field a reading.

Every field is a float, so that none can ever change its type; the unit is part of its name, so
that none can change its meaning either.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from edgesweep_collector.core.lineprotocol import (
    Line,
    float_text,
    joined,
    key_text,
    plain,
    series_text,
)
from edgesweep_collector.core.projection import label_tag

if TYPE_CHECKING:
    from edgesweep.records import Device, Telemetry

MEASUREMENT = "edgesweep_telemetry"
TAGS = ("device", "hardware_class", "performance_state", "spool")
"""Tag names that are ours; the labels' are as for levels."""

_KEPT_LENGTH = 64
_KEPT_NAMES = 4096


@dataclass(frozen=True, slots=True)
class Series:
    """What the lines of a device begin with, as long as it says the same of itself.

    Attributes:
        text: Measurement and tags.
        names: The names of its tags, which no field may have.
    """

    text: str
    names: frozenset[str]


def telemetry_series(device_id: str, device: Device | None, spool: str) -> Series:
    """The series of a device.

    Args:
        device_id: Who measured.
        device: What it had said of itself when the record came; ``None`` if nothing.
        spool: As of a :class:`.projection.Place`.
    """
    tags = dict.fromkeys(TAGS, "") | {"device": device_id, "spool": spool}
    if device is not None:
        tags |= {
            "hardware_class": device.hardware_class,
            "performance_state": device.performance_state,
        }
        tags |= {label_tag(key): value for key, value in device.labels.items() if key}
    return Series(series_text(MEASUREMENT, tags), frozenset(map(key_text, tags)))


def telemetry_line(series: Series, telemetry: Telemetry, time_ns: int) -> Line:
    """The line of a record; its text is ``None`` when no reading has a value to write.

    A reading without a value is no field, never a zero. Of two readings of one name the last
    stays.

    Args:
        series: As :func:`telemetry_series` makes it.
        telemetry: The readings.
        time_ns: As of a :class:`.projection.Place`.
    """
    wanted = 0
    fields: dict[str, str] = {}
    taken = series.names
    for one in telemetry.readings:
        value = one.value
        if value is None:
            continue
        wanted += 1
        text = float_text(value)
        if text is not None:
            key = field_key(one.name, one.unit)
            fields[f"reading_{key}" if key in taken else key] = text
    fields.pop("", None)
    return joined(series.text, sorted(fields.items()), wanted, time_ns)


def field_key(name: str, unit: str) -> str:
    """The field of a reading: ``power_vdd_in_w``; one of unit 1 has no suffix.

    A name that is InfluxDB's own gets ``reading_`` before it, and so does one that is a tag of
    its series (:func:`telemetry_line`).
    """
    if len(name) + len(unit) > _KEPT_LENGTH:
        return _field_key(name, unit)
    return _kept_field_key(name, unit)


def _field_key(name: str, unit: str) -> str:
    suffix = plain(unit).lower()
    whole = name if suffix in {"", "1"} else f"{name}_{suffix}"
    own = whole == "time" or whole.startswith("_")
    return key_text(f"reading_{whole}" if own else whole)


_kept_field_key = lru_cache(_KEPT_NAMES)(_field_key)
