"""What was dropped, so that a collector does not wait for it: ranges until told, and totals."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from edgesweep.envelope import to_ranges
from edgesweep.events import Dropped
from edgesweep_agent.core.spooled import fact_check, parts_of, row_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgesweep.events import Ranges

    from .database import Database

FULL = "full"
SUPERSEDED = "superseded"
"""A heartbeat says nothing that a newer one does not."""
REFUSED = "refused"
"""It was set aside, and later had to make room there."""
SPLIT = "split"
DAMAGED = "damaged"
MEMORY = "lost in memory"
MAX_RANGES = 500
"""So many ranges are some kilobytes of text, which any transport takes."""


class Ledger:
    """Counts and ranges of one spool file; whoever changes them is in a transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def drop(self, reason: str, rows: Sequence[tuple[int, str]]) -> None:
        """Note rows, (id, kind), that will never be delivered."""
        kinds = Counter((parts_of(row)[0], kind) for row, kind in rows)
        for (n, kind), count in kinds.items():
            self._count(reason, n, kind, count)
        for first, last in to_ranges(row for row, _ in rows):
            self._note(reason, first, last)

    def drop_unnumbered(self, reason: str, kinds: Mapping[str, int]) -> None:
        """Note records that were dropped before they had a number."""
        for kind, count in kinds.items():
            self._count(reason, 0, kind, count)

    def lose(self, reason: str, n: int, ranges: Ranges) -> None:
        """Note numbers of which it is not known what they were."""
        for first, last in ranges:
            self._note(reason, row_id(n, first), row_id(n, last))

    def add(self, dropped: Dropped, n: int) -> None:
        """Note what another ledger had to tell."""
        for kind, count in dropped.by_kind.items():
            self._count(dropped.reason, n if dropped.ranges else 0, kind, count)
        self.lose(dropped.reason, n, dropped.ranges)

    def clear(self) -> None:
        """Forget all of it: another ledger has it."""
        self._db.run("DELETE FROM dropped")
        self._db.run("DELETE FROM tally")

    def totals(self) -> dict[str, int]:
        """How many records of each kind this file has dropped since it began."""
        return dict(
            self._db.rows("SELECT kind, CAST(SUM(count) AS INTEGER) FROM tally GROUP BY kind")
        )

    @property
    def untold(self) -> bool:
        """Whether there is anything to tell."""
        ranges = self._db.number("SELECT EXISTS (SELECT 1 FROM dropped WHERE NOT told)")
        return bool(ranges or self._db.number("SELECT EXISTS (SELECT 1 FROM tally WHERE untold)"))

    def to_tell(self, epochs: Mapping[int, int], current: int) -> list[Dropped]:
        """All that was not told yet, in portions."""
        counts: dict[tuple[str, int], dict[str, int]] = {}
        for reason, n, kind, count in self._db.rows(
            "SELECT reason, n, kind, CAST(untold AS INTEGER) FROM tally WHERE untold"
        ):
            counts.setdefault((reason, n), {})[kind] = count
        ranges = self._ranges()
        told: list[Dropped] = []
        for key in sorted({*counts, *ranges}):
            reason, n = key
            epoch = epochs.get(n or current)
            if epoch is not None:
                told += _portions(epoch, ranges.get(key, []), counts.get(key, {}), reason)
        return told

    def told(self, event: int) -> None:
        """The row ``event`` tells all of that; its ranges stay until it is delivered."""
        sql = "SELECT reason, first, last FROM dropped WHERE NOT told"
        for reason, first, last in self._db.rows(sql):
            self._write(reason, first, last, event)
        self._db.run("UPDATE tally SET untold = 0 WHERE untold")

    def heard(self, event: int) -> None:
        """The row ``event`` is delivered."""
        self._db.run("DELETE FROM dropped WHERE told = ?", (event,))

    def events(self) -> set[int]:
        """The rows that tell something and may not have been delivered."""
        found = self._db.rows("SELECT DISTINCT told FROM dropped WHERE told")
        return {row for (row,) in found}

    def first(self, n: int) -> int | None:
        """The lowest number of an epoch of which nobody may have been told."""
        low = row_id(n, 0), row_id(n + 1, 0)
        found = self._db.number(
            "SELECT MIN(first) FROM dropped WHERE first >= ? AND first < ?", low
        )
        return parts_of(found)[1] if found else None

    @property
    def is_sound(self) -> bool:
        """Whether all ranges are what was written."""
        return all(crc == _check(*row) for *row, crc in self._all())

    def mend(self) -> None:
        """Keep the ranges that are."""
        sound = [row for *row, crc in self._all() if crc == _check(*row)]
        self._db.run("DELETE FROM dropped")
        for row in sound:
            self._write(*row)

    def _all(self) -> list[Any]:
        return self._db.rows("SELECT reason, first, last, told, crc FROM dropped")

    def _ranges(self) -> dict[tuple[str, int], list[tuple[int, int]]]:
        found: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for reason, first, last in self._db.rows(
            "SELECT reason, first, last FROM dropped WHERE NOT told ORDER BY first"
        ):
            if _is_range(first, last):
                (n, start), (_, end) = parts_of(first), parts_of(last)
                found.setdefault((reason, n), []).append((start, end))
        return found

    def _count(self, reason: str, n: int, kind: str, count: int) -> None:
        key = (reason, n, kind)
        changed = self._db.run(
            "UPDATE tally SET count = count + ?, untold = untold + ? "
            "WHERE reason = ? AND n = ? AND kind = ?",
            (count, count, *key),
        )
        if not changed:
            self._db.run("INSERT INTO tally VALUES (?, ?, ?, ?, ?)", (*key, count, count))

    def _note(self, reason: str, first: int, last: int) -> None:
        """Add a range, to the one before it if it goes on from there."""
        before = self._db.rows(
            "SELECT first, last FROM dropped WHERE reason = ? AND first <= ? AND NOT told "
            "ORDER BY first DESC LIMIT 1",
            (reason, first),
        )
        if before and before[0][1] >= first - 1:
            first, last = before[0][0], max(last, before[0][1])
        self._write(reason, first, last, 0)

    def _write(self, reason: str, first: int, last: int, told: int) -> None:
        row = (reason, first, last, told)
        sql = "INSERT OR REPLACE INTO dropped VALUES (?, ?, ?, ?, ?)"
        self._db.run(sql, (*row, _check(*row)))


def _check(reason: object, first: object, last: object, told: object) -> int:
    return fact_check(f"dropped {reason} {first} {last}", str(told))


def _is_range(first: object, last: object) -> bool:
    """Whether it is one, of one epoch: what is damaged is not told."""
    if not (isinstance(first, int) and isinstance(last, int)):
        return False
    return 0 < first <= last and parts_of(first)[0] == parts_of(last)[0]


def _portions(
    epoch: int, ranges: Sequence[tuple[int, int]], kinds: Mapping[str, int], reason: str
) -> Iterable[Dropped]:
    """In several portions it is not known which kinds are in which."""
    if len(ranges) <= MAX_RANGES:
        yield Dropped(epoch, tuple(ranges), kinds, reason)
        return
    for at in range(0, len(ranges), MAX_RANGES):
        yield Dropped(epoch, tuple(ranges[at : at + MAX_RANGES]), {}, reason)
