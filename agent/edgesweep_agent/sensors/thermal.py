"""Thermal zones of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core import temperatures

from .base import State
from .files import Missing, absent
from .readings import nothing, numbered, reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_FOLDER = "sys/class/thermal"


class ThermalZones:
    """``temperature_cpu``, ``temperature_gpu``, ``temperature_tj`` ..., and the hottest."""

    name = "thermal"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Reading]:
        """One reading a zone: one that is switched off or broken spoils no other."""
        zones = self._files.names(_FOLDER, r"thermal_zone\d+")
        if not zones:
            return nothing("temperature_highest", "C", "no thermal zone on this box")
        kinds = [self._files.text(f"{path}/type") for path in zones]
        names = numbered([f"temperature_{temperatures.zone(kind)}" for kind in kinds])
        found = [
            reading(name, "C", self._zone(path, kind))
            for path, kind, name in zip(zones, kinds, names, strict=True)
        ]
        return [*found, _highest(found)]

    def _zone(self, path: str, kind: str) -> float | Missing:
        milli = self._files.number(f"{path}/temp")
        if isinstance(milli, Missing):
            return milli
        celsius = temperatures.of_zone(kind, milli / 1000)
        if celsius is None:
            return absent(f"/{path}: {milli / 1000:g} degC is what a switched-off sensor says")
        return celsius


def _highest(found: list[Reading]) -> Reading:
    hottest = temperatures.highest(one.value for one in found if one.state is State.OK)
    given = absent("no thermal zone can be read") if hottest is None else hottest
    return reading("temperature_highest", "C", given)
