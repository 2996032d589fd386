"""Temperatures of processors and drives that their own chips report through hwmon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core import temperatures

from .files import Files, Missing, absent
from .hwmon import Chips
from .readings import nothing, numbered, reading

if TYPE_CHECKING:
    from .base import Reading

_LABELS = {
    "package id": "cpu_package",
    "tctl": "cpu_tctl",
    "tdie": "cpu_tdie",
    "composite": "nvme",
}
"""What is worth a series of its own; single cores come to their hottest."""


class ChipTemperatures:
    """coretemp, k10temp and nvme."""

    name = "chip_temperature"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files
        self._chips = Chips(files, "coretemp", "k10temp", "zenpower", "nvme")

    def read(self) -> list[Reading]:
        """The packages, the hottest core, and the drives."""
        kept: list[tuple[str, float | Missing]] = []
        cores: list[float | Missing] = []
        for path in self._chips.find():
            for entry in self._files.names(path, r"temp\d+_input"):
                label = self._files.text(entry.replace("_input", "_label")).lower()
                name = next((to for word, to in _LABELS.items() if label.startswith(word)), "")
                if name:
                    kept.append((name, self._celsius(entry)))
                elif label.startswith("core "):
                    cores.append(self._celsius(entry))
        read = [celsius for celsius in cores if not isinstance(celsius, Missing)]
        if cores:
            kept.append(("cpu_core_highest", max(read) if read else cores[0]))
        if not kept:
            return nothing("temperature_cpu_package", "C", "no coretemp, k10temp or nvme here")
        names = numbered([f"temperature_{name}" for name, _ in kept])
        return [reading(name, "C", found) for name, (_, found) in zip(names, kept, strict=True)]

    def _celsius(self, path: str) -> float | Missing:
        milli = self._files.number(path)
        if isinstance(milli, Missing):
            return milli
        celsius = temperatures.believable(milli / 1000)
        return absent(f"/{path}: {milli} is no temperature") if celsius is None else celsius
