"""Records become envelopes: with the clocks as they are when the record is made, and for good."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from edgesweep import envelope
from edgesweep.envelope import Envelope
from edgesweep.records import ClockQuality

from . import device
from .core.clock import PLAUSIBLE_NS, Known, Look

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep.records import Event, Kind

    from .spool.store import Seal


def look() -> Look:
    """Both clocks of this machine, read one after the other."""
    return Look(time.time_ns(), time.monotonic_ns(), device.clock_synced())


class Sealer:
    """Makes the envelopes of one device in one boot.

    Args:
        device_id: Who speaks.
        version: Of the agent.
        read: Reads the clocks.
    """

    def __init__(
        self, device_id: str, version: str, *, boot_id: str, read: Callable[[], Look] = look
    ) -> None:
        self.boot_id = boot_id
        self._device_id = device_id
        self._version = version
        self._read = read
        self._known = Known(read().offset_ns)

    def seal(self, kind: Kind, payload: bytes) -> Seal:
        """What makes the envelope once it has its epoch and number; its times are those of now."""
        now = self._read()
        clock = self._known.quality(now)

        def sealed(epoch: int, seq: int) -> bytes:
            return envelope.encode(
                Envelope(
                    device_id=self._device_id,
                    epoch=epoch,
                    seq=seq,
                    boot_id=self.boot_id,
                    agent_version=self._version,
                    kind=kind,
                    wall_ns=now.wall_ns,
                    mono_ns=now.mono_ns,
                    clock=clock,
                    payload=payload,
                )
            )

        return sealed

    def watch_clock(self) -> Event | None:
        """Look at the clock again; what a collector has to be told of it, if anything."""
        self._known, event = self._known.seen(self._read())
        return event

    def trusted_wall_ns(self) -> int | None:
        """The time, while something disciplines the clock."""
        now = self._read()
        return now.wall_ns if now.synced else None

    def trouble(self) -> str:
        """What is wrong with the clock, for people; or ""."""
        now = self._read()
        if now.wall_ns < PLAUSIBLE_NS:
            return "it was never set since this boot: records wait for their times"
        if self._known.quality(now) is ClockQuality.UNSYNCED:
            return "nothing synchronises it"
        return ""
