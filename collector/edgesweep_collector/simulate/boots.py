"""The starts of a device's agent, and what its clocks show in between. Pure."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep.records import ClockQuality

from .dice import dice, uuid4
from .fleet import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .fleet import SimDevice

VERSION = "0.1.0"
_AHEAD_NS = 86_400 * 10**9
_UNSET_S = 90.0
_RESTART_EVERY_S, _RESTART_JITTER_S = 240.0, 120.0
_DOWN_S = 12.0


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the agent.

    Attributes:
        begins_s: Seconds from the start of the fleet.
        connection: The counter in its birth, from 1.
        silent_s: How long nothing was measured before it.
    """

    begins_s: float
    connection: int
    silent_s: float


@dataclass(frozen=True, slots=True)
class Clocks:
    """What the clocks of a device show.

    Attributes:
        booted_s: When it was switched on, in seconds from the start of the fleet.
        unset_until_s: Until then its wall clock counts from 1970.
        ahead_ns: By how much its wall clock is wrong, unknown to it.
    """

    start_ns: int
    boot_id: str
    booted_s: float
    unset_until_s: float
    ahead_ns: int

    def mono_ns(self, at_s: float) -> int:
        """Since it was switched on."""
        return max(1, _ns(at_s) - _ns(self.booted_s))

    def wall_ns(self, at_s: float) -> int:
        """Since 1970, as the device has it."""
        if at_s < self.unset_until_s:
            return self.mono_ns(at_s)
        return self.start_ns + _ns(at_s) + self.ahead_ns

    def quality(self, at_s: float) -> ClockQuality:
        """What the device says of its wall clock."""
        return ClockQuality.UNSYNCED if at_s < self.unset_until_s else ClockQuality.SYNCED


def clocks(one: SimDevice) -> Clocks:
    """The clocks of a device; it is switched on once."""
    unset = Fault.CLOCK_UNSET in one.faults
    # Short, so that two simulations one after the other do not look like two machines.
    uptime_s = dice(*one.words, "uptime").uniform(20.0, 50.0)
    return Clocks(
        start_ns=one.options.start_ns,
        boot_id=uuid4(*one.words, "boot"),
        booted_s=one.joins_s - uptime_s,
        unset_until_s=one.joins_s + _UNSET_S if unset else float("-inf"),
        ahead_ns=_AHEAD_NS if Fault.CLOCK_AHEAD in one.faults else 0,
    )


def starts(one: SimDevice) -> Iterator[Start]:
    """Every start of its agent, in order."""
    yield Start(one.joins_s, 1, 0.0)
    for connection, at_s in enumerate(heapq.merge(_planted(one), _updates(one)), 2):
        yield Start(at_s, connection, _DOWN_S)


def version(one: SimDevice, at_s: float) -> str:
    """Of the agent that runs then."""
    change = one.regression
    if change is None or change.agent_version is None or at_s < change.at_s:
        return VERSION
    return change.agent_version


def _planted(one: SimDevice) -> Iterator[float]:
    if Fault.RESTARTS not in one.faults:
        return
    for n in itertools.count(1):
        jitter_s = dice(*one.words, "restart", n).uniform(0.0, _RESTART_JITTER_S)
        yield one.joins_s + n * (_RESTART_EVERY_S + _RESTART_JITTER_S) + jitter_s


def _updates(one: SimDevice) -> Iterator[float]:
    change = one.regression
    if change is not None and change.agent_version is not None:
        yield max(change.at_s, one.joins_s + 2 * _DOWN_S)


def _ns(at_s: float) -> int:
    return round(at_s * 1e9)
