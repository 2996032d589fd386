"""What the sensors of a device say at an instant. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from edgesweep.records import SensorValue, Telemetry

from .dice import dice
from .fleet import Fault

if TYPE_CHECKING:
    from .classes import SensorShape
    from .fleet import SimDevice

DAY_S = 86_400.0
SENSOR_UP = {"meminfo": True, "thermal": True, "cpufreq": True, "power_rails": True}
"""What heartbeats and telemetry say of the sensors of a device that is well."""
_DAY_C = 4.0
_WARM_S = 240.0
_NOISE = 0.02


def sensors_up(one: SimDevice) -> dict[str, bool]:
    """By sensor, whether it says anything."""
    return SENSOR_UP | ({"power_rails": False} if Fault.SENSOR_MISSING in one.faults else {})


def telemetry(one: SimDevice, at_s: float, busy_s: float | None) -> Telemetry:
    """Its readings.

    Args:
        one: The device.
        at_s: Seconds from the start of the fleet.
        busy_s: For how long an engine has been at work; ``None`` if none is.
    """
    rng = dice(*one.words, "telemetry", round(at_s * 1000))
    load = 0.0 if busy_s is None else 1.0
    warmth = 0.0 if busy_s is None else 1.0 - math.exp(-busy_s / _WARM_S)
    day_c = _DAY_C * math.sin(2 * math.pi * at_s / DAY_S)
    values = [
        _reading(one, sensor, warmth if sensor.unit == "C" else load, day_c, rng.gauss(0, _NOISE))
        for sensor in one.of.sensors
    ]
    used = load * (one.of.first.weights_bytes + one.of.first.runtime_bytes)
    available = one.of.available_bytes - used * (1 + rng.gauss(0, _NOISE / 4))
    up = (
        SensorValue(f"sensor_up_{name}", "1", float(is_up))
        for name, is_up in sensors_up(one).items()
    )
    return Telemetry(
        (*values, SensorValue("memory_available", "bytes", float(round(available))), *up)
    )


def _reading(
    one: SimDevice, sensor: SensorShape, share: float, day_c: float, noise: float
) -> SensorValue:
    if Fault.SENSOR_MISSING in one.faults and sensor.name.startswith("power_"):
        return SensorValue(sensor.name, sensor.unit, None, "read failed: Input/output error")
    value = sensor.idle + (sensor.full - sensor.idle) * share
    if sensor.unit == "C":
        return SensorValue(sensor.name, sensor.unit, round(value + day_c + 20 * noise, 1))
    value *= 1 + noise
    if sensor.unit == "percent":
        value = max(0.0, min(100.0, value))
    return SensorValue(sensor.name, sensor.unit, round(value, 3))
