"""Rows that were set aside: what the collector refuses, or no transport takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .database import Database


class Aside:
    """The table of refused rows; whoever changes it is in a transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, row: int, kind: str, crc: int, data: bytes, reason: str) -> None:
        """Set a row aside, with the reason for people."""
        values = (row, kind, crc, data, reason)
        self._db.run("INSERT OR REPLACE INTO refused VALUES (?, ?, ?, ?, ?)", values)

    def take(self, row: int) -> tuple[str, int, bytes] | None:
        """Take a row out again: its kind, check and data."""
        found = self._db.rows("SELECT kind, crc, data FROM refused WHERE id = ?", (row,))
        self._db.run("DELETE FROM refused WHERE id = ?", (row,))
        return found[0] if found else None

    def has(self, row: int) -> bool:
        """Whether a row is here."""
        return bool(self._db.rows("SELECT 1 FROM refused WHERE id = ?", (row,)))

    def ids(self) -> list[int]:
        """All that is here, oldest first."""
        return [row for (row,) in self._db.rows("SELECT id FROM refused ORDER BY id")]

    def rows(self, limit: int) -> list[tuple[int, str, bytes, str]]:
        """(id, kind, data, reason) of what is here, oldest first."""
        return self._db.rows(
            "SELECT id, kind, data, reason FROM refused ORDER BY id LIMIT ?", (limit,)
        )

    def size(self) -> tuple[int, int]:
        """Rows and bytes."""
        ((rows, size),) = self._db.rows("SELECT COUNT(*), SUM(LENGTH(data)) FROM refused")
        return rows, size or 0

    def trim(self, limit_bytes: int) -> list[tuple[int, str]]:
        """Remove the oldest until the rest has so many bytes; (id, kind) of what is gone."""
        over = self.size()[1] - limit_bytes
        gone = []
        for row, kind, size in self._db.rows(
            "SELECT id, kind, LENGTH(data) FROM refused ORDER BY id"
        ):
            if over <= 0:
                break
            over -= size
            gone.append((row, kind))
            self._db.run("DELETE FROM refused WHERE id = ?", (row,))
        return gone
