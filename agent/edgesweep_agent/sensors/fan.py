"""Fans: how hard they are driven, and how fast they turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .hwmon import Chips
from .readings import nothing, numbered, of_file

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_FULL_PWM = 255
_JETPACK_4 = "sys/devices/pwm-fan"
_SPEEDS = {"pwmfan": "fan1_input", "pwm_tach": "rpm"}
"""Raspberry Pi and plain kernels; the tachometer of an Orin has a file of another name."""


class Fan:
    """``fan_drive`` in percent and ``fan_speed`` in turns a minute."""

    name = "fan"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files
        self._chips = Chips(files, *_SPEEDS)

    def read(self) -> list[Reading]:
        """What the fans have of the two."""
        places = [
            *((f"{path}/pwm1", "fan_drive") for path in self._chips.find()),
            *(
                (f"{path}/{_SPEEDS[kind]}", "fan_speed")
                for path, kind in self._chips.find().items()
            ),
            (f"{_JETPACK_4}/target_pwm", "fan_drive"),
            (f"{_JETPACK_4}/rpm_measured", "fan_speed"),
        ]
        there = [(path, name) for path, name in places if self._files.has(path)]
        if not there:
            return nothing("fan_drive", "percent", "no fan that the kernel drives")
        names = numbered([name for _, name in there])
        return [
            of_file(self._files, name, "rpm", path)
            if name.startswith("fan_speed")
            else of_file(self._files, name, "percent", path, scale=100 / _FULL_PWM)
            for name, (path, _) in zip(names, there, strict=True)
        ]
