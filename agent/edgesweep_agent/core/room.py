"""How much of the disk the spool may take, for which record, and what gives way to it.

Results may use the whole of the cap, heartbeats nine tenths, telemetry four fifths; and on a
disk that others fill, telemetry stops growing the file at ``min_free``, heartbeats at three
quarters and results at half of it. What is in the way gives way in this order: results that the
archive has already, then telemetry, oldest first. Results that wait never do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction

from edgesweep.records import Kind
from edgesweep.sizes import size_bytes, size_text


class Rank(IntEnum):
    """What matters most, first."""

    RESULT = 0
    HEARTBEAT = 1
    TELEMETRY = 2


RANKS = {
    Kind.BIRTH: Rank.RESULT,
    Kind.EVENT: Rank.RESULT,
    Kind.LEVEL: Rank.RESULT,
    Kind.RUN: Rank.RESULT,
    Kind.HEARTBEAT: Rank.HEARTBEAT,
    Kind.TELEMETRY: Rank.TELEMETRY,
}
_CAP_SHARE = {
    Rank.RESULT: Fraction(1),
    Rank.HEARTBEAT: Fraction(9, 10),
    Rank.TELEMETRY: Fraction(4, 5),
}
_FREE_SHARE = {
    Rank.RESULT: Fraction(1, 2),
    Rank.HEARTBEAT: Fraction(3, 4),
    Rank.TELEMETRY: Fraction(1),
}
_ASIDE_SHARE = Fraction(1, 10)
LEAST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """What the operator allows, in bytes."""

    max_bytes: int = 256 * 2**20
    min_free_bytes: int = 64 * 2**20
    keep_delivered_bytes: int = 4 * 2**20

    @classmethod
    def parsed(cls, *, max_size: str, min_free: str, keep_delivered: str) -> Limits:
        """Limits as a configuration writes them.

        Raises:
            ValueError: naming the key that cannot be.
        """
        limits = cls(
            _size("max_size", max_size),
            _size("min_free", min_free),
            _size("keep_delivered", keep_delivered),
        )
        if limits.max_bytes < LEAST_BYTES:
            raise ValueError(
                f"spool.max_size: {max_size} is too little: {size_text(LEAST_BYTES)} is the least"
            )
        return limits

    @property
    def aside_bytes(self) -> int:
        """How much of what was refused stays for people to look at."""
        return int(self.max_bytes * _ASIDE_SHARE)


def _size(key: str, text: str) -> int:
    try:
        return size_bytes(text)
    except ValueError as error:
        raise ValueError(f"spool.{key}: {error}") from error


@dataclass(frozen=True, slots=True)
class Held:
    """How things stand, in bytes.

    Attributes:
        used: Of the file, taken by rows of any kind.
        spare: Of the file, free: used again before it grows.
        disk_free: Of the file system, for us; ``None`` in memory.
        delivered: Of results that the archive has, kept in case it asks again.
        telemetry: Of telemetry that waits.
    """

    used: int
    spare: int
    disk_free: int | None
    delivered: int
    telemetry: int

    def after(self, room: Room, size: int) -> Held:
        """How things stand once a record of so many bytes is in."""
        freed = room.from_delivered + room.from_telemetry
        grown = max(0, size - freed - self.spare)
        return Held(
            self.used + size - freed,
            max(0, self.spare + freed - size),
            None if self.disk_free is None else self.disk_free - grown,
            self.delivered - room.from_delivered,
            self.telemetry - room.from_telemetry,
        )


@dataclass(frozen=True, slots=True)
class Room:
    """Whether a record gets in, and how many bytes of others go out first.

    Attributes:
        reason: Why it does not, for people; or "".
    """

    admitted: bool
    from_delivered: int = 0
    from_telemetry: int = 0
    reason: str = ""


def room_for(size: int, rank: Rank, held: Held, limits: Limits) -> Room:
    """The room for one more record of ``size`` bytes."""
    cap = int(limits.max_bytes * _CAP_SHARE[rank])
    over_cap = max(0, held.used + size - cap)
    over_disk = _short_of_disk(size, rank, held, limits)
    needed = max(over_cap, over_disk)
    if needed > held.delivered + held.telemetry:
        return Room(admitted=False, reason=_why(rank, cap, held, over_disk > over_cap))
    from_delivered = min(needed, held.delivered)
    return Room(True, from_delivered, needed - from_delivered)


def _short_of_disk(size: int, rank: Rank, held: Held, limits: Limits) -> int:
    """How much has to be freed within the file, since it may not grow by as much."""
    growth = max(0, size - held.spare)
    if held.disk_free is None or not growth:
        return 0
    floor = int(limits.min_free_bytes * _FREE_SHARE[rank])
    return min(growth, max(0, floor - (held.disk_free - growth)))


def _why(rank: Rank, cap: int, held: Held, disk: bool) -> str:
    what = {Rank.RESULT: "results", Rank.HEARTBEAT: "heartbeats", Rank.TELEMETRY: "telemetry"}[rank]
    if disk:
        free = size_text(held.disk_free or 0)
        return f"the disk has {free} left, which is spool.min_free: free some of it"
    return (
        f"the spool is full: {size_text(held.used)} wait, and {what} may use {size_text(cap)} "
        "(spool.max_size): let it deliver, or export it"
    )
