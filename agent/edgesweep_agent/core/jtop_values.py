"""jtop's tables as readings: every key optional, since each has been missing on some board.

Shapes of jetson-stats 4.3 and 7.2. ``gpu`` is empty where none was found and its ``load`` may be
missing (#885); ``power`` is ``{}`` without a sensor; ``memory`` lacks ``EMC`` where debugfs is
closed; an offline temperature is -256 (#800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import temperatures
from .rails import rail_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 2**63
_UNITS = {
    "gpu_load": "percent",
    "emc_load": "percent",
    "fan_speed": "percent",
    "ram_used": "bytes",
    "ram_total": "bytes",
}


def unit(name: str) -> str:
    """The unit of a value of :func:`flatten`."""
    if name.startswith("temperature_"):
        return "C"
    return "W" if name.startswith("power_") else _UNITS[name]


def flatten(tables: Mapping[str, Any]) -> dict[str, float | None]:
    """Values by name, in the units of :func:`unit`; ``None`` for what is there but says nothing.

    Args:
        tables: jtop's ``memory``, ``gpu``, ``power``, ``temperature`` and ``fan``, as far as
            they could be read.
    """
    memory, power = _table(tables, "memory"), _table(tables, "power")
    ram = _table(memory, "RAM")
    gpu = next((one for one in _table(tables, "gpu").values() if isinstance(one, dict)), {})
    fan = next((one for one in _table(tables, "fan").values() if isinstance(one, dict)), {})
    speeds = fan.get("speed")
    values = {
        "gpu_load": _number(_table(gpu, "status").get("load")),
        "emc_load": _number(_table(memory, "EMC").get("val")),
        "fan_speed": _number(speeds[0] if isinstance(speeds, list) and speeds else None),
        "ram_used": _times(ram.get("used"), 1024),
        "ram_total": _times(ram.get("tot"), 1024),
        "power_total": _watts(_table(power, "tot").get("power")),
    }
    for name, told in _table(power, "rail").items():
        rail = rail_name(str(name))
        if rail and isinstance(told, dict):
            values[f"power_{rail}"] = _watts(told.get("power"))
    for name, told in _table(tables, "temperature").items():
        if isinstance(told, dict):
            values[f"temperature_{temperatures.zone(str(name))}"] = _temperature(told)
    return values


def _table(tables: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = tables.get(key)
    return found if isinstance(found, dict) else {}


def _temperature(told: Mapping[str, Any]) -> float | None:
    if told.get("online") is False:
        return None
    return temperatures.believable(_number(told.get("temp")))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # What no float holds, or is none, would spoil every JSON that it comes into.
    return float(value) if -_MOST < value < _MOST else None


def _times(value: object, factor: int) -> float | None:
    number = _number(value)
    return None if number is None else number * factor


def _watts(milliwatts: object) -> float | None:
    number = _number(milliwatts)
    return None if number is None else number / 1000
