"""Which time a record counts for: fixed once, by what is known of the clocks of its device.

A device without a battery for its clock boots in 1970, or where it was switched off, until it is
synchronised. Its monotonic clock is right from the start; what is missing is by how much the two
differ. All instants and offsets are in ns, wall times since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from edgesweep.records import ClockQuality

if TYPE_CHECKING:
    from edgesweep.envelope import Envelope

# 2024-01-01T00:00:00Z: no agent is older, so an earlier clock was never set (SPL-03).
_EARLIEST_WALL_NS = 1_704_067_200 * 10**9
AHEAD_NS = 5 * 60 * 10**9
"""No effective time is further ahead of when the record came."""
# 146 years: what is beyond is no uptime, and sums with it might leave 64 bits.
_LONGEST_MONO_NS = 2**62


class TimeSource(Enum):
    """Where the effective time of a record comes from, from the best to the last resort."""

    DEVICE = "device"
    """The device's own wall clock."""
    CLOCK_SET = "clock_set"
    """Its monotonic clock, and what the wall clock was set to in the same boot."""
    BOUNDED = "bounded"
    """Its monotonic clock, as late as the arrival of anything of the same boot allows."""
    RECEIVED = "received"
    """When it came."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The time that a record counts for, and why that one."""

    wall_ns: int
    source: TimeSource


@dataclass(frozen=True, slots=True)
class BootClock:
    """What is known of the clocks of one boot of one device.

    Attributes:
        bound_ns: The least that any of its records came later than its monotonic clock showed:
            wall less monotonic time is no more than this. ``None`` before the first.
        offset_ns: Wall less monotonic time, once the wall clock had been set.
        synced: Whether it was synchronised then, and not set by hand or by guess.
    """

    bound_ns: int | None = None
    offset_ns: int | None = None
    synced: bool = False

    def heard(self, envelope: Envelope, received_ns: int) -> BootClock:
        """With what an envelope shows by its times alone."""
        if not _has_uptime(envelope.mono_ns):
            return self
        late_ns = received_ns - envelope.mono_ns
        bound_ns = late_ns if self.bound_ns is None else min(self.bound_ns, late_ns)
        known = self if bound_ns == self.bound_ns else replace(self, bound_ns=bound_ns)
        if known.synced or not is_set(envelope, received_ns):
            return known
        return known.set_to(envelope.wall_ns - envelope.mono_ns, synced=True)

    def set_to(self, offset_ns: int, *, synced: bool) -> BootClock:
        """With an offset that the device tells of; one of a worse clock changes nothing."""
        if abs(offset_ns) > _LONGEST_MONO_NS or (self.synced and not synced):
            return self
        return replace(self, offset_ns=offset_ns, synced=synced)


def is_plausible(wall_ns: int, received_ns: int) -> bool:
    """Whether a wall time may be true: from 2024 to five minutes after the record came.

    What the device says of its own clock is not enough: one that is called synchronised and
    shows 1970 or next year would put points where no retention policy or graph expects them.
    """
    return _EARLIEST_WALL_NS <= wall_ns <= received_ns + AHEAD_NS


def is_set(envelope: Envelope, received_ns: int) -> bool:
    """Whether the wall clock of an envelope is one that others can be reckoned from."""
    return (
        envelope.clock is ClockQuality.SYNCED
        and is_plausible(envelope.wall_ns, received_ns)
        and _has_uptime(envelope.mono_ns)
    )


def on_arrival(envelope: Envelope, received_ns: int, boot: BootClock) -> Fixed | None:
    """The time of a record that has just come; ``None`` if its clock may yet be set.

    A plausible clock counts, also one that was not synchronised, unless what it was set to
    later in that boot is known already.
    """
    reckoned = _by_offset(envelope.mono_ns, received_ns, boot) if boot.synced else None
    if is_plausible(envelope.wall_ns, received_ns) and (
        envelope.clock is not ClockQuality.UNSYNCED or reckoned is None
    ):
        return Fixed(envelope.wall_ns, TimeSource.DEVICE)
    if reckoned is None and not (envelope.boot_id and _has_uptime(envelope.mono_ns)):
        return Fixed(received_ns, TimeSource.RECEIVED)
    return reckoned


def at_last(mono_ns: int, received_ns: int, boot: BootClock) -> Fixed:
    """The time of a record that has waited long enough, and never after it came.

    The bound is tight as soon as anything of that boot was delivered live; the order of the
    records of a boot is kept in any case.
    """
    reckoned = _by_offset(mono_ns, received_ns, boot)
    if reckoned is not None:
        return reckoned
    latest_ns = mono_ns + (received_ns if boot.bound_ns is None else boot.bound_ns)
    if latest_ns < received_ns and is_plausible(latest_ns, received_ns):
        return Fixed(latest_ns, TimeSource.BOUNDED)
    return Fixed(received_ns, TimeSource.RECEIVED)


def _by_offset(mono_ns: int, received_ns: int, boot: BootClock) -> Fixed | None:
    if boot.offset_ns is None or not _has_uptime(mono_ns):
        return None
    wall_ns = mono_ns + boot.offset_ns
    return Fixed(wall_ns, TimeSource.CLOCK_SET) if is_plausible(wall_ns, received_ns) else None


def _has_uptime(mono_ns: int) -> bool:
    return 0 < mono_ns < _LONGEST_MONO_NS
