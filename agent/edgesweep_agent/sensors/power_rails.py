"""Supply rails of NVIDIA's boards: INA3221 and INA238.

hwmon since JetPack 5 (mV and mA; an INA238 has uW), iio under JetPack 4 (mW). Channels 4 to 6 of
an INA3221 are shunt voltages in uV and 7 is their sum: tempting names, no rails. A rail near
zero reads negative; the value is kept, or every mean and integral would be too high.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.rails import Rail, boundary, rail_name

from .files import Missing
from .hwmon import Chips
from .readings import nothing, reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_CHANNELS = (1, 2, 3)
_IIO = "sys/bus/i2c/drivers/ina3221x"


class PowerRails:
    """``power_vdd_in`` and its parts, or the rails of a board that does not measure its input."""

    name = "power_rails"
    fast = True

    def __init__(self, files: Files) -> None:
        self._files = files
        self._ina3221 = Chips(files, "ina3221")
        self._ina238 = Chips(files, "ina238")

    def read(self) -> list[Reading]:
        """Power of each rail, and its current as a share of the limit where it has one."""
        rails = self._rails()
        if not rails:
            return nothing("power_vdd_in", "W", "no INA3221 or INA238 on this box")
        names = [rail.name for rail in rails]
        found = [
            reading(
                f"power_{rail.name}", "W", self._watts(rail), boundary=boundary(rail.name, names)
            )
            for rail in rails
        ]
        limited = (rail for rail in rails if rail.limit_path)
        return found + [share for rail in limited for share in self._of_limit(rail)]

    def _rails(self) -> list[Rail]:
        found = [rail for path in self._ina3221.find() for rail in self._channels(path)]
        found += [
            Rail("vin", power_path=f"{path}/power1_input", power_unit_w=1e-6)
            for path in self._ina238.find()
        ]
        return found or [
            rail
            for chip in self._files.names(_IIO, r"\d+-00[0-9a-f]{2}")
            for device in self._files.names(chip, r"iio.device\d+")
            for rail in self._iio(device)
        ]

    def _channels(self, path: str) -> list[Rail]:
        rails = []
        for n in _CHANNELS:
            name = rail_name(self._files.text(f"{path}/in{n}_label"))
            if name:
                limit = f"{path}/curr{n}_crit"
                rails.append(
                    Rail(
                        name,
                        voltage_path=f"{path}/in{n}_input",
                        current_path=f"{path}/curr{n}_input",
                        limit_path=limit if self._files.has(limit) else "",
                    )
                )
        return rails

    def _iio(self, path: str) -> list[Rail]:
        names = {n: rail_name(self._files.text(f"{path}/rail_name_{n}")) for n in range(3)}
        return [
            Rail(name, power_path=f"{path}/in_power{n}_input") for n, name in names.items() if name
        ]

    def _watts(self, rail: Rail) -> float | Missing:
        if rail.power_path:
            power = self._files.number(rail.power_path)
            return power if isinstance(power, Missing) else power * rail.power_unit_w
        millivolts = self._files.number(rail.voltage_path)
        if isinstance(millivolts, Missing):
            return millivolts
        milliamperes = self._files.number(rail.current_path)
        if isinstance(milliamperes, Missing):
            return milliamperes
        return millivolts * milliamperes / 1e6

    def _of_limit(self, rail: Rail) -> list[Reading]:
        limit = self._files.integer(rail.limit_path)
        if not limit or limit >= _NO_LIMIT_MA:
            return []
        current = self._files.number(rail.current_path)
        scale = 100 / limit
        return [reading(f"current_of_limit_{rail.name}", "percent", current, scale=scale)]


_NO_LIMIT_MA = 32760
"""The register at its largest: no limit was set."""
