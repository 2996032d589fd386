"""The rows of a spool file by rank: what SQL says of them, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_agent.core.room import RANKS, Rank

from .schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .database import Database

_ABOUT = "CAST(kind AS TEXT), IFNULL(LENGTH(data), 0)"
_RANK_OF = {kind.value: rank for kind, rank in RANKS.items()}


def rank_of(kind: str) -> Rank:
    """The rank of a kind by its name; what a newer version calls otherwise is a result."""
    return _RANK_OF.get(kind, Rank.RESULT)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row is, what it is, and its bytes."""

    id: int
    rank: Rank
    kind: str
    size: int


class Shelves:
    """Tables of rows, each in the order of their making."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, rank: Rank, rows: Iterable[tuple[int, str, int, bytes]]) -> None:
        """Add rows: id, kind, check, data."""
        self._db.many(f"INSERT INTO {TABLES[rank]} VALUES (?, ?, ?, ?)", rows)  # noqa: S608

    def remove(self, rank: Rank, ids: Iterable[int]) -> None:
        """Remove rows."""
        self._db.many(f"DELETE FROM {TABLES[rank]} WHERE id = ?", ((one,) for one in ids))  # noqa: S608

    def remove_first(self, rank: Rank, last: int) -> None:
        """Remove all rows up to ``last``."""
        self._db.run(f"DELETE FROM {TABLES[rank]} WHERE id <= ?", (last,))  # noqa: S608

    def find(self, row: int) -> Place | None:
        """Where a row is; ``None`` if it is not here."""
        for rank, table in TABLES.items():
            found = self._db.rows(
                f"SELECT {_ABOUT} FROM {table} WHERE id = ?",  # noqa: S608
                (row,),
            )
            if found:
                return Place(row, rank, *found[0])
        return None

    def read(self, rank: Rank, row: int) -> tuple[str, int, bytes]:
        """Kind, check and data of a row that is here; what is damaged fails its check."""
        sql = f"SELECT kind, crc, data FROM {TABLES[rank]} WHERE id = ?"  # noqa: S608
        ((kind, crc, data),) = self._db.rows(sql, (row,))
        return str(kind), crc, data if isinstance(data, bytes) else b""

    def after(self, rank: Rank, row: int, limit: int) -> list[Place]:
        """Rows from ``row`` on, in order."""
        found = self._db.rows(
            f"SELECT id, {_ABOUT} FROM {TABLES[rank]} WHERE id >= ? ORDER BY id LIMIT ?",  # noqa: S608
            (row, limit),
        )
        return [Place(one, rank, kind, size) for one, kind, size in found]

    def ids(self, first: int, last: int) -> list[int]:
        """The ids between two that are here, in order."""
        union = " UNION ALL ".join(
            f"SELECT id FROM {table} WHERE id BETWEEN ?1 AND ?2"  # noqa: S608
            for table in TABLES.values()
        )
        return [row for (row,) in self._db.rows(f"{union} ORDER BY 1", (first, last))]

    def last(self, below: int) -> int:
        """The highest id below another; 0 without one."""
        return max(
            self._db.number(f"SELECT MAX(id) FROM {table} WHERE id < ?", (below,))  # noqa: S608
            for table in TABLES.values()
        )

    def counts(self) -> Sequence[tuple[str, int, int]]:
        """(kind, rows, bytes) of all that is here."""
        about = "CAST(kind AS TEXT), COUNT(*), SUM(IFNULL(LENGTH(data), 0))"
        return [
            row
            for table in TABLES.values()
            for row in self._db.rows(f"SELECT {about} FROM {table} GROUP BY 1")  # noqa: S608
        ]
