"""The wall clock of a device that may boot in 1970: how good it is, and when it was put right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgesweep import events
from edgesweep.records import ClockQuality

if TYPE_CHECKING:
    from edgesweep.records import Event

STEPPED_NS = 500_000_000
"""A change of wall less monotonic time beyond this is a step: NTP slews what is less than 128 ms
off, and a day of slewing at 500 ppm between two looks would still be less than this."""
PLAUSIBLE_NS = 1_704_067_200 * 10**9
"""2024-01-01: no agent is older, so an earlier clock was never set."""


@dataclass(frozen=True, slots=True)
class Look:
    """Both clocks at one instant, and whether the kernel calls the wall clock disciplined."""

    wall_ns: int
    mono_ns: int
    synced: bool

    @property
    def offset_ns(self) -> int:
        """Wall time less monotonic time: constant while nobody sets the clock."""
        return self.wall_ns - self.mono_ns


@dataclass(frozen=True, slots=True)
class Known:
    """What was seen of the clock in this boot.

    Attributes:
        offset_ns: At the last look.
        told: Whether a collector was told, in this boot, what the offset is.
        was_synced: Whether it ever was, in this boot.
    """

    offset_ns: int
    told: bool = False
    was_synced: bool = False

    def seen(self, look: Look) -> tuple[Known, Event | None]:
        """What is known after a look, and what a collector has to be told of it.

        It is told once when the clock is synchronised, and whenever it was set by more than half
        a second: records made before can then be given their times.
        """
        stepped_ns = look.offset_ns - self.offset_ns
        first = look.synced and not self.told
        again = abs(stepped_ns) > STEPPED_NS and look.wall_ns > PLAUSIBLE_NS
        known = Known(
            look.offset_ns if first or again else self.offset_ns,
            told=self.told or first,
            was_synced=self.was_synced or look.synced,
        )
        if not (first or again):
            return known, None
        return replace(known, told=True), events.clock_set(look.offset_ns, stepped_ns)

    def quality(self, look: Look) -> ClockQuality:
        """How far the wall clock can be trusted now."""
        if look.synced:
            return ClockQuality.SYNCED
        return ClockQuality.HOLDOVER if self.was_synced else ClockQuality.UNSYNCED
