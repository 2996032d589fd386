"""What goes into the archive and what is read from it, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep.envelope import Envelope
    from edgesweep.events import Ranges
    from edgesweep.records import ClockQuality, Device, Heartbeat, LevelResult, RunState, Telemetry
    from edgesweep_collector.core.clock import Fixed
    from edgesweep_collector.core.gaps import Span


@dataclass(frozen=True, slots=True)
class Received:
    """One accepted envelope.

    Attributes:
        raw: The bytes as they came.
        envelope: What they say.
        received_ns: When they came, in ns since 1970.
        transport: By which transport.
        fixed: The time that another archive has fixed for it, which stands.
        is_live: Whether the device itself has just sent it; not so what a file brought.
    """

    raw: bytes
    envelope: Envelope
    received_ns: int
    transport: str
    fixed: Fixed | None = None
    is_live: bool = True


class Kept(Enum):
    """What became of an envelope that was to be archived."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    """Its very bytes were here already."""
    CONFLICT = "conflict"
    """Another record was here under its device, epoch and sequence number."""


@dataclass(frozen=True, slots=True)
class ArchivedLevel:
    """A level result as the archive has it; none of it ever changes once its time is fixed.

    Attributes:
        row_id: Its place in the order in which records were decoded and had their time fixed,
            which is what cursors count; 0 while it has none.
        effective_wall_ns: The time it counts for, in ns since 1970; when it was received, while
            that is not fixed.
        tie: Of its envelope alone, and so the same in any archive: what tells it from others of
            the same device and instant.
    """

    row_id: int
    effective_wall_ns: int
    level: LevelResult
    tie: int = 0


@dataclass(frozen=True, slots=True)
class ArchivedTelemetry:
    """What the sensors of a device said, and what it had said of itself when that came.

    Attributes:
        row_id, effective_wall_ns, tie: As of an :class:`ArchivedLevel`.
        device: ``None`` if it had not described itself yet.
    """

    row_id: int
    effective_wall_ns: int
    device_id: str
    device: Device | None
    telemetry: Telemetry
    tie: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What there is of a kind between two places of the order that cursors count.

    Attributes:
        oldest_ns: When the first of it was received, in ns since 1970; ``None`` of nothing.
    """

    rows: int
    oldest_ns: int | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """The newest snapshot of a run in one line; ``n_archived`` levels of it have arrived."""

    run_id: str
    device_id: str
    state: RunState
    reason: str
    started_wall_ns: int
    ended_wall_ns: int | None
    n_archived: int


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device: when it was heard, and what it last said of itself (``None`` if it never did).

    Attributes:
        telemetry_ns: When its telemetry was measured, in ns since 1970.
        skew_ns: Our clock less its own when its last heartbeat came, the way included.
        clock: What it called its clock then.
        conflict_ns: When two machines were last seen to share its id; ``None`` if never.
    """

    device_id: str
    first_seen_ns: int
    last_seen_ns: int
    agent_version: str
    device: Device | None
    heartbeat: Heartbeat | None
    telemetry: Telemetry | None = None
    telemetry_ns: int | None = None
    skew_ns: int | None = None
    clock: ClockQuality | None = None
    conflict_ns: int | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatRow:
    """A device's last heartbeat: when it came, and when it was made by the device's clock."""

    device_id: str
    received_ns: int
    wall_ns: int
    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class EpochGaps:
    """What never came of one spool of a device.

    Attributes:
        missing: Numbers that never came, and of which the device did not say why.
        reconciled: By reason, how many it said were dropped, split, or are gone for good.
    """

    device_id: str
    epoch: int
    missing: tuple[Span, ...]
    reconciled: Mapping[str, int]

    @property
    def n_missing(self) -> int:
        """How many numbers are missing."""
        return sum(span.n for span in self.missing)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a device is to be asked for again, of one spool."""

    device_id: str
    epoch: int
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A line that a projection's target refused, with the reason it gave."""

    row_id: int
    line: str
    error: str
    at_ns: int
