"""What goes into the archive and what is read from it, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgesweep.envelope import Envelope
    from edgesweep.records import Device, Heartbeat, LevelResult, RunState, Telemetry

# 2024-01-01T00:00:00Z: no agent is older, so an earlier clock was never set (SPL-03).
_EARLIEST_WALL_NS = 1_704_067_200 * 10**9
_AHEAD_NS = 5 * 60 * 10**9


@dataclass(frozen=True, slots=True)
class Received:
    """One accepted envelope: the bytes as they came, what they say, when and by which transport."""

    raw: bytes
    envelope: Envelope
    received_ns: int
    transport: str

    @property
    def clock_trusted(self) -> bool:
        """Whether the device's wall clock is plausible: from 2024 to five minutes ahead of ours.

        What the device says of its own clock is not enough: one that is called synchronised and
        shows 1970 or next year would put points where no retention policy or graph expects them.
        """
        return _EARLIEST_WALL_NS <= self.envelope.wall_ns <= self.received_ns + _AHEAD_NS

    @property
    def effective_wall_ns(self) -> int:
        """The time the record counts for: the device's where it can be trusted, else ours."""
        return self.envelope.wall_ns if self.clock_trusted else self.received_ns


class Kept(Enum):
    """What became of an envelope that was to be archived."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    """Its very bytes were here already."""
    CONFLICT = "conflict"
    """Another record was here under its device, epoch and sequence number."""


@dataclass(frozen=True, slots=True)
class ArchivedLevel:
    """A level result, the row of its envelope, and its effective time in ns since 1970."""

    row_id: int
    effective_wall_ns: int
    level: LevelResult


@dataclass(frozen=True, slots=True)
class ArchivedTelemetry:
    """What the sensors of a device said, and what it had said of itself when that came.

    Attributes:
        device: ``None`` if it had not described itself yet.
    """

    row_id: int
    effective_wall_ns: int
    device_id: str
    device: Device | None
    telemetry: Telemetry


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
    """One device: when it was heard, and what it last said of itself (``None`` if it never did)."""

    device_id: str
    first_seen_ns: int
    last_seen_ns: int
    agent_version: str
    device: Device | None
    heartbeat: Heartbeat | None
    telemetry: Telemetry | None = None
    telemetry_ns: int | None = None
    """When it was measured, in ns since 1970."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A line that a projection's target refused, with the reason it gave."""

    row_id: int
    line: str
    error: str
    at_ns: int
