"""Under-voltage of a Raspberry Pi, without starting ``vcgencmd`` or needing group ``video``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .hwmon import Chips
from .readings import nothing, of_file

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files


class RaspberryVoltage:
    """``undervoltage_alarm``: 1 while the firmware sees the supply under 4.63 V and throttles."""

    name = "raspberry_voltage"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files
        self._chips = Chips(files, "rpi_volt")

    def read(self) -> list[Reading]:
        """One alarm."""
        path = next(iter(self._chips.find()), "")
        if not path:
            return nothing("undervoltage_alarm", "1", "no Raspberry Pi voltage monitor")
        return [of_file(self._files, "undervoltage_alarm", "1", f"{path}/in0_lcrit_alarm")]
