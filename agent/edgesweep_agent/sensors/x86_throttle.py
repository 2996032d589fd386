"""Thermal throttling of x86 processors, by the kernel's counters since boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .readings import nothing, reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_FOLDER = "sys/devices/system/cpu"
_COUNTS = {
    "throttle_cpu_core_events": ("core_throttle_count", "1", 1.0),
    "throttle_cpu_package_events": ("package_throttle_count", "1", 1.0),
    "throttle_cpu_package_time": ("package_throttle_total_time_ms", "s", 1e-3),
}


class X86Throttle:
    """The most that any processor counts: each one repeats what its package counts."""

    name = "x86_throttle"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Reading]:
        """Events, and the time where the kernel counts it (since 5.8)."""
        folders = [
            f"{cpu}/thermal_throttle"
            for cpu in self._files.names(_FOLDER, r"cpu\d+")
            if self._files.has(f"{cpu}/thermal_throttle")
        ]
        found = [
            reading(name, unit, max(values), scale=scale)
            for name, (file, unit, scale) in _COUNTS.items()
            if (values := self._values(folders, file))
        ]
        reason = "no thermal_throttle counters: not an Intel processor, or a virtual one"
        return found or nothing("throttle_cpu_package_events", "1", reason)

    def _values(self, folders: list[str], file: str) -> list[int]:
        values = (self._files.integer(f"{path}/{file}") for path in folders)
        return [value for value in values if value is not None]
