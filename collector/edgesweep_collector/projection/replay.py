"""Writing a part of the archive again: cursors are set back, and the followers do the rest.

A line that is written again has the same bytes, so a replay into what is there changes nothing,
and one into an empty bucket rebuilds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from edgesweep.records import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLLOWED: Mapping[str, Kind] = {"influx": Kind.LEVEL, "influx_telemetry": Kind.TELEMETRY}
"""By projection, the kind of records that it writes."""


class Backlog(Protocol):
    """Rows of a kind between two rows."""

    @property
    def rows(self) -> int:
        """How many."""


class Replayed(Protocol):
    """What is needed of the archive; every call blocks."""

    def cursor(self, name: str) -> int:
        """The last row that the projection ``name`` is done with."""

    def set_cursor(self, name: str, row_id: int, *, expected: int | None = None) -> bool:
        """Store the cursor if it still is where it was expected; whether it was."""

    def row_before(self, kind: Kind, since_ns: int) -> int:
        """The last row before the first of a kind at or after an effective time."""

    def backlog(self, kind: Kind, after: int, until: int | None = None) -> Backlog:
        """What there is of a kind after a row, and up to ``until``."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What is written again.

    Attributes:
        projection: Its name.
        cursor: The last row that was done.
        back_to: The last row that then counts as done.
        rows: Records in between.
    """

    projection: str
    cursor: int
    back_to: int
    rows: int


def planned(archive: Replayed, projection: str, since_ns: int | None) -> Replay:
    """What a replay would write again.

    Args:
        archive: Where rows and cursors are.
        projection: A name of :data:`FOLLOWED`.
        since_ns: The effective time from which on, in ns since 1970; ``None`` for everything.
            Rows are in the order of their arrival: older ones among them are written as well.

    Raises:
        ArchiveUnavailable: the archive does not answer.
    """
    kind = FOLLOWED[projection]
    cursor = archive.cursor(projection)
    back_to = 0 if since_ns is None else min(cursor, archive.row_before(kind, since_ns))
    return Replay(projection, cursor, back_to, archive.backlog(kind, back_to, cursor).rows)


def replay(archive: Replayed, projection: str, since_ns: int | None) -> Replay:
    """Set a cursor back; a running collector goes on from there when it next looks.

    Arguments and errors are those of :func:`planned`.
    """
    while True:
        found = planned(archive, projection, since_ns)
        # A follower that has just gone on is not to be overtaken by what we read before.
        if archive.set_cursor(projection, found.back_to, expected=found.cursor):
            return found
