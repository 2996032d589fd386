"""The durable outbox: what was measured stays here until the collector's archive has it.

One SQLite file in WAL mode with ``synchronous=FULL``: a row whose ``append`` returned survives
a power cut. Only the daemon opens it, and says so with a lock. A damaged file is set aside and
a new one, with a new epoch, begins: the agent always starts.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep.delivery import Parcel
from edgesweep.records import Kind

from .errors import SettingsError, SpoolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from edgesweep.delivery import Key


_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
    seq INTEGER PRIMARY KEY, priority INTEGER NOT NULL, kind TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS outbox_order ON outbox (priority, seq);
CREATE TABLE IF NOT EXISTS rejected (
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, data BLOB NOT NULL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS finished (plan TEXT PRIMARY KEY);
"""

_PRIORITY = {
    Kind.BIRTH: 0,
    Kind.EVENT: 0,
    Kind.LEVEL: 0,
    Kind.RUN: 0,
    Kind.HEARTBEAT: 1,
    Kind.TELEMETRY: 2,
}


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """How much waits, and for what."""

    epoch: int
    next_seq: int
    rows: int
    bytes: int
    rejected: int
    rows_by_kind: dict[str, int]


class Spool:
    """The outbox of one device. Not thread-safe: the daemon calls it from one worker thread."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: int, *, epoch: int
    ) -> None:
        self.path = path
        self.epoch = epoch
        self.quarantined: Path | None = None
        self._db = connection
        self._lock = lock

    @classmethod
    def open(cls, path: Path, *, new_epoch: Callable[[], int]) -> Spool:
        """Open or create the spool at ``path``; a damaged file is set aside first.

        Args:
            path: The SQLite file; its folder is created.
            new_epoch: Gives the 63-bit id of a new file.

        Raises:
            SpoolError: another process has it open, or the disk is full.
            SettingsError: it cannot be made there.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"spool.path {path}: {error.strerror}") from error
        lock = _take_lock(path.with_name(path.name + ".lock"))
        try:
            quarantined = None if _is_sound(path) else _set_aside(path)
            connection, epoch = _opened(path, new_epoch)
        except (SpoolError, sqlite3.Error) as error:
            os.close(lock)
            raise (
                error
                if isinstance(error, SpoolError)
                else SpoolError(f"spool.path {path}: {error}")
            ) from error
        spool = cls(path, connection, lock, epoch=epoch)
        spool.quarantined = quarantined
        return spool

    def append(self, entries: Sequence[tuple[Kind, Callable[[int, int], bytes]]]) -> list[Key]:
        """Store entries, all or none; they are on the disk when this returns.

        Of heartbeats only the newest is kept: an old one says nothing that a new one does not.
        """
        with self._transaction():
            (seq,) = self._db.execute("SELECT value FROM meta WHERE key='next_seq'").fetchone()
            keys = []
            for kind, seal in entries:
                if kind is Kind.HEARTBEAT:
                    self._db.execute("DELETE FROM outbox WHERE kind = ?", (kind.value,))
                row = (seq, _PRIORITY[kind], kind.value, seal(self.epoch, seq))
                self._db.execute("INSERT INTO outbox VALUES (?, ?, ?, ?)", row)
                keys.append((self.epoch, seq))
                seq += 1
            self._db.execute("UPDATE meta SET value = ? WHERE key = 'next_seq'", (seq,))
        return keys

    def head(self, limit: int) -> list[Parcel]:
        """The next parcels to deliver: by priority, then in the order of their making."""
        rows = self._db.execute(
            "SELECT seq, kind, data FROM outbox ORDER BY priority, seq LIMIT ?", (limit,)
        )
        return [Parcel((self.epoch, seq), kind, data) for seq, kind, data in rows]

    def settle(self, delivered: Sequence[Key], rejected: Sequence[Key], reason: str) -> None:
        """Delete what the archive has; move what the collector refused aside, with its reason."""
        with self._transaction():
            for epoch, seq in rejected:
                if epoch == self.epoch:
                    self._db.execute(
                        "INSERT OR REPLACE INTO rejected "
                        "SELECT seq, kind, data, ? FROM outbox WHERE seq = ?",
                        (reason, seq),
                    )
            done = [(seq,) for epoch, seq in (*delivered, *rejected) if epoch == self.epoch]
            self._db.executemany("DELETE FROM outbox WHERE seq = ?", done)

    def status(self) -> SpoolStatus:
        """What waits, in rows and bytes."""
        by_kind = dict(self._db.execute("SELECT kind, COUNT(*) FROM outbox GROUP BY kind"))
        (size,) = self._db.execute("SELECT COALESCE(SUM(LENGTH(data)), 0) FROM outbox").fetchone()
        (rejected,) = self._db.execute("SELECT COUNT(*) FROM rejected").fetchone()
        (next_seq,) = self._db.execute("SELECT value FROM meta WHERE key='next_seq'").fetchone()
        return SpoolStatus(self.epoch, next_seq, sum(by_kind.values()), size, rejected, by_kind)

    def rejected(self) -> list[tuple[int, str, str]]:
        """What the collector refused: (seq, kind, reason)."""
        return list(self._db.execute("SELECT seq, kind, reason FROM rejected ORDER BY seq"))

    def is_finished(self, plan: str) -> bool:
        """Whether a plan that is to run once has run."""
        found = self._db.execute("SELECT 1 FROM finished WHERE plan = ?", (plan,))
        return found.fetchone() is not None

    def finish(self, plan: str) -> None:
        """Remember that a plan has run, beyond a restart."""
        with self._transaction():
            self._db.execute("INSERT OR IGNORE INTO finished VALUES (?)", (plan,))

    def next_connection(self) -> int:
        """A number that rises at each start of the agent on this spool."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO meta VALUES ('connection', 1) "
                "ON CONFLICT (key) DO UPDATE SET value = value + 1"
            )
            row = self._db.execute("SELECT value FROM meta WHERE key='connection'").fetchone()
        return int(row[0])

    def close(self) -> None:
        """Close the file and let go of the lock."""
        self._db.close()
        os.close(self._lock)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise SpoolError(f"spool.path {self.path}: {error}") from error
        try:
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise SpoolError(f"spool.path {self.path}: {error}") from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        # A full disk ends the transaction by itself.
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")


def _opened(path: Path, new_epoch: Callable[[], int]) -> tuple[sqlite3.Connection, int]:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "auto_vacuum=INCREMENTAL"):
        connection.execute(f"PRAGMA {pragma}")
    # A spool that is whole is only read: that works on a full disk too.
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'finished'").fetchone() is None:
        connection.executescript(_SCHEMA)
    if connection.execute("SELECT 1 FROM meta WHERE key = 'next_seq'").fetchone() is None:
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('epoch', ?)", (new_epoch(),))
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('next_seq', 1)")
    (epoch,) = connection.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
    return connection, epoch


def _take_lock(path: Path) -> int:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SettingsError(f"spool.path {path}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise SpoolError(
            f"{path}: another agent has this spool open; stop it, or give this one a spool of "
            "its own"
        ) from error
    return handle


def _is_sound(path: Path) -> bool:
    """Whether the file is a whole database.

    Raises:
        SpoolError: it cannot be told, since somebody holds it or the disk does not answer.
    """
    if not path.exists():
        return True
    connection = sqlite3.connect(path)
    try:
        return bool(connection.execute("PRAGMA quick_check").fetchone() == ("ok",))
    except sqlite3.OperationalError as error:
        raise SpoolError(f"spool.path {path}: {error}; is another program using it?") from error
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()


def _set_aside(path: Path) -> Path:
    """Rename a damaged spool with its side files; a technician may still salvage it."""
    names = (path.with_name(f"{path.name}.corrupt-{n}") for n in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        side = path.with_name(path.name + suffix)
        if side.exists():
            side.rename(aside.with_name(aside.name + suffix))
    return aside
