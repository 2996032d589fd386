"""The clock of the memory and how busy it is (EMC on Jetson, dmc on RK3588)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .files import Files, Missing, absent
from .readings import nothing, reading

if TYPE_CHECKING:
    from .base import Reading

_DEBUG = "sys/kernel/debug"
_RATES = (
    f"{_DEBUG}/bpmp/debug/clk/emc/rate",
    f"{_DEBUG}/clk/emc/clk_rate",
    "sys/class/devfreq/dmc/cur_freq",
)
CAPS = (
    "sys/kernel/nvpmodel_clk_cap/emc",
    "sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
    "sys/class/devfreq/dmc/max_freq",
)
"""JetPack 6 and later, 4 and 5; Rockchip."""
_BUSY = (
    f"{_DEBUG}/cactmon/mc_all",
    f"{_DEBUG}/bpmp/debug/actmon/mc_all_avg_activity",
    "sys/kernel/actmon_avg_activity/mc_all",
)


class MemoryClock:
    """``memory_frequency``, ``memory_frequency_cap``, ``memory_load``; debugfs is root's."""

    name = "memory_clock"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Reading]:
        """Nothing but absence on a box whose memory clock cannot be seen."""
        cap, rate = self._first(CAPS), self._first(_RATES)
        if isinstance(cap, Missing) and isinstance(rate, Missing):
            return nothing("memory_frequency", "Hz", "the memory's clock cannot be seen here")
        return [
            reading("memory_frequency", "Hz", rate),
            reading("memory_frequency_cap", "Hz", cap),
            reading("memory_load", "percent", self._load(rate)),
        ]

    def _load(self, rate: int | Missing) -> float | Missing:
        busy_khz = self._first(_BUSY)
        if isinstance(busy_khz, Missing):
            return busy_khz
        if isinstance(rate, Missing) or not rate:
            return absent("no load without the clock")
        return 100 * busy_khz / (rate / 1000)

    def _first(self, paths: tuple[str, ...]) -> int | Missing:
        """The first that can be read; else what is in the way of one that is there."""
        found = [self._files.number(path) for path in paths]
        values = [one for one in found if isinstance(one, int)]
        if values:
            return values[0]
        missing = [one for one in found if isinstance(one, Missing)]
        return next((one for one in missing if "only root" in one.reason), missing[0])
