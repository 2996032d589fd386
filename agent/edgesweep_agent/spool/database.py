"""One SQLite file of the spool: how it is opened, and what its errors mean.

WAL with ``synchronous=FULL``: what was committed survives a power cut. Opened for this process
alone, so that nobody else's read can keep the log from being written back, and no shared-memory
file is needed beside it.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgesweep_agent.errors import SpoolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

PAGE_BYTES = 512
"""Small pages: a commit of two records writes few bytes beside them, and a row loses little to the
end of its page, since it goes on in others (docs/measurements/spool.md)."""
LOG_BYTES = 640 * 1024
"""How long the log gets before it is written back: less than the ballast, or a full disk could
keep it from being written back when the ballast is gone."""
_WAIT_S = 1.0
SIDES = ("-wal", "-shm", "-journal")
"""What SQLite puts beside a database."""


class DamagedError(SpoolError):
    """The file is no whole database of ours any more."""


class Database:
    """A connection whose errors are :class:`SpoolError`; in memory without a path.

    Raises:
        DamagedError: it is no database.
        SpoolError: it cannot be opened now.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(
                path or ":memory:",
                isolation_level=None,
                check_same_thread=False,
                timeout=_WAIT_S,
            )
        except sqlite3.Error as error:
            raise self._told(error) from error
        # A damaged text is a text: its row is found out by its check.
        self._db.text_factory = lambda raw: raw.decode(errors="replace")
        try:
            self._prepare()
        except SpoolError:
            self._db.close()
            raise

    def _prepare(self) -> None:
        self.run(f"PRAGMA page_size={PAGE_BYTES}")
        self.run("PRAGMA locking_mode=EXCLUSIVE")
        self.run("PRAGMA temp_store=MEMORY")
        self.run("PRAGMA cell_size_check=ON")
        # Debian and Ubuntu build SQLite so that it overwrites what is deleted: a write more for
        # each byte.
        self.run("PRAGMA secure_delete=OFF")
        self.run("PRAGMA journal_mode=WAL")
        self.run("PRAGMA synchronous=FULL")
        self.run(f"PRAGMA journal_size_limit={LOG_BYTES}")
        self.run(f"PRAGMA wal_autocheckpoint={LOG_BYTES // self.page_bytes}")

    @property
    def page_bytes(self) -> int:
        """The size of its pages; a file of 0.1 has larger ones until it is compacted."""
        return self.number("PRAGMA page_size")

    @property
    def used_bytes(self) -> int:
        """What is taken of the file."""
        return self.number("PRAGMA page_count") * self.page_bytes - self.spare_bytes

    @property
    def spare_bytes(self) -> int:
        """What is free of the file, and used again before it grows."""
        return self.number("PRAGMA freelist_count") * self.page_bytes

    def check(self) -> None:
        """Read the whole file.

        Raises:
            DamagedError: with what is wrong.
        """
        ((found,),) = self.rows("PRAGMA quick_check(1)")
        if found != "ok":
            raise DamagedError(f"spool.path {self.path}: {found}")

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement; how many rows it changed."""
        try:
            return self._db.execute(sql, values).rowcount
        except sqlite3.Error as error:
            raise self._told(error) from error

    def many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        """Execute a statement once for each."""
        try:
            self._db.executemany(sql, values)
        except sqlite3.Error as error:
            raise self._told(error) from error

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """What a query answers."""
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._told(error) from error

    def number(self, sql: str, values: Sequence[Any] = ()) -> int:
        """The first number that a query answers; 0 without one."""
        found = self.rows(sql, values)
        return int(found[0][0] or 0) if found else 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of what is done inside, or nothing; on the disk afterwards."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def write_back(self) -> None:
        """Put the log into the file, so that it begins anew; it may stay as it is."""
        self.run("PRAGMA wal_checkpoint(RESTART)")

    def compact(self) -> None:
        """Give what is free back to the disk; only for files that hold little."""
        self.run("VACUUM")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def repage(self) -> None:
        """Give a file of 0.1 the pages of today; only for small files."""
        self.run("PRAGMA journal_mode=DELETE")
        try:
            self.run(f"PRAGMA page_size={PAGE_BYTES}")
            self.run("PRAGMA auto_vacuum=NONE")
            self.run("VACUUM")
        finally:
            self._prepare()

    def close(self) -> None:
        """Close it; the log is written back if the disk lets it."""
        self._db.close()

    def _roll_back(self) -> None:
        # A full disk ends the transaction by itself.
        if self._db.in_transaction:
            self.run("ROLLBACK")

    def _told(self, error: sqlite3.Error) -> SpoolError:
        # Python gives SQLITE_CORRUPT and SQLITE_NOTADB alone this very class.
        kind = DamagedError if type(error) is sqlite3.DatabaseError else SpoolError
        what = "the disk is full: free some of it" if "full" in str(error) else str(error)
        return kind(f"spool.path {self.path or 'in memory'}: {what}")
