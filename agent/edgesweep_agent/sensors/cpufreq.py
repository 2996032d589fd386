"""Processor clocks: what they are, what they may be, and how far down they may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.cpu_info import count

from .files import absent
from .readings import nothing, reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_FOLDER = "sys/devices/system/cpu/cpufreq"


class CpuFrequency:
    """Over all policies: the mean and the lowest clock, the lowest cap and the lowest floor.

    ``scaling_cur_freq`` does not show hardware throttling. The floor is what tells that
    something undid ``jetson_clocks`` in the middle of a run.
    """

    name = "cpufreq"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Reading]:
        """Four clocks and the processors that are online."""
        policies = self._files.names(_FOLDER, r"policy\d+")
        if not policies:
            clocks = nothing("cpu_frequency", "Hz", "no cpufreq: a virtual machine, or no driver")
        else:
            now = self._khz(policies, "scaling_cur_freq")
            clocks = [
                _clock("cpu_frequency", sum(now) / len(now) if now else None),
                _clock("cpu_frequency_lowest", min(now, default=None)),
                _clock(
                    "cpu_frequency_cap", min(self._khz(policies, "scaling_max_freq"), default=None)
                ),
                _clock(
                    "cpu_frequency_floor",
                    min(self._khz(policies, "scaling_min_freq"), default=None),
                ),
            ]
        return [*clocks, self._online()]

    def _khz(self, policies: list[str], name: str) -> list[int]:
        values = (self._files.integer(f"{path}/{name}") for path in policies)
        return [value for value in values if value is not None]

    def _online(self) -> Reading:
        found = self._files.read("sys/devices/system/cpu/online")
        return reading("cpus_online", "1", count(found) if isinstance(found, str) else found)


def _clock(name: str, khz: float | None) -> Reading:
    found = absent("the policies do not say") if khz is None else khz
    return reading(name, "Hz", found, scale=1e3)
