"""Over-current events of NVIDIA's chips: the hardware halves the clock for a millisecond."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .files import Missing
from .hwmon import Chips
from .readings import nothing, of_file, reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_DEBUG = "sys/kernel/debug/bpmp/debug/soctherm"
_TICK_S = 1 / 31.25e6
"""Inferred from one report: 33 569 ticks an event that lasts 1.07 ms."""


class OverCurrent:
    """``throttle_oc1_events`` (under-voltage), ``oc2`` (average), ``oc3`` (instantaneous).

    Counts since boot. OC3 is normal on an Orin Nano Super (7.6 a second for 0.9 % of the time),
    so judge by ``throttle_oc3_time``, which is root's, or by the rate, never by a first event.
    """

    name = "soctherm"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files
        self._chips = Chips(files, "soctherm_oc")

    def read(self) -> list[Reading]:
        """The counters that are there, and the time of OC3."""
        found = [
            of_file(self._files, f"throttle_oc{n}_events", "1", f"{path}/oc{n}_event_cnt")
            for path in self._chips.find()
            for n in (1, 2, 3)
            if self._files.has(f"{path}/oc{n}_event_cnt")
        ]
        if not found:
            return nothing("throttle_oc3_events", "1", "no over-current counters on this box")
        return [*found, reading("throttle_oc3_time", "s", self._seconds())]

    def _seconds(self) -> float | Missing:
        """BPMP counts from 0 what hwmon counts from 1."""
        ticks = self._files.number(f"{_DEBUG}/oc2/event_time")
        return ticks if isinstance(ticks, Missing) else ticks * _TICK_S
