"""The archive: everything that was accepted, exactly as it came, committed before it is acked."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import DBAPIError, OperationalError, StatementError

from edgesweep import envelope as envelopes
from edgesweep.envelope import WireError
from edgesweep_collector.errors import ArchiveUnavailable, ArchiveUnusable

from . import decoded, queries
from .engine import WRITES, open_engine
from .migrations import migrate
from .rows import (
    ArchivedLevel,
    ArchivedTelemetry,
    DeadLetter,
    DeviceRow,
    Kept,
    Received,
    RunRow,
)
from .schema import CURSORS, DEAD_LETTERS, DECODED, ENVELOPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Engine

    from edgesweep.records import Run

_REBUILD_CHUNK = 500


class Archive:
    """An append-only store of envelopes, with the tables decoded from them.

    Every method opens and ends its own transaction, and may be called from any thread; writers
    take turns. A method that writes raises :class:`.ArchiveUnavailable` when the database does
    not, and then nothing of that call was stored.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writing = threading.Lock()

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Archive:
        """Open the archive at a database URL and bring its tables to this version.

        Args:
            url: ``sqlite:///path`` (the file and its parents are created) or PostgreSQL's.
            create: Whether an SQLite file that does not exist may be created.

        Raises:
            SettingsError: not a usable URL.
            ArchiveUnusable: it cannot be opened, is no archive, or is of a newer version.
        """
        engine = open_engine(url, create=create)
        archive = cls(engine)
        try:
            with archive._write() as connection:
                migrate(connection)
        except (ArchiveUnavailable, ArchiveUnusable) as error:
            engine.dispose()
            raise ArchiveUnusable(f"cannot open the archive: {error}") from error
        return archive

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def append(self, batch: Sequence[Received]) -> list[Kept]:
        """Store a batch in one transaction; it is committed when this returns.

        A payload that does not decode is stored as it came, with the reason beside it.

        Returns:
            For each envelope whether it was stored, or was held already (by the archive or by
            this batch), or is another record under the name of one that is held.

        Raises:
            ArchiveUnavailable: the database refused, and nothing of the batch was stored.
        """
        with self._write() as connection:
            return [_append_one(connection, received) for received in batch]

    def rebuild(self) -> None:
        """Empty the decoded tables and fill them again from the raw envelopes.

        One transaction: readers see the old tables until the new ones are whole.
        """
        with self._write() as connection:
            for table in DECODED:
                connection.execute(delete(table))
            last = 0
            while rows := _raw_after(connection, last):
                for last, received in rows:
                    _note(connection, last, _enter(connection, last, received))

    def levels_after(self, row_id: int, limit: int) -> list[ArchivedLevel]:
        """Up to ``limit`` levels of envelopes above ``row_id``, ascending by their row."""
        with self._read() as connection:
            return queries.levels_after(connection, row_id, limit)

    def telemetry_after(self, row_id: int, limit: int) -> list[ArchivedTelemetry]:
        """Up to ``limit`` telemetry records of envelopes above ``row_id``, ascending."""
        with self._read() as connection:
            return queries.telemetry_after(connection, row_id, limit)

    def sensors_up(self, since_ns: int) -> dict[str, dict[str, bool]]:
        """By device and sensor, from each device's last heartbeat if it came since then."""
        with self._read() as connection:
            return queries.sensors_up(connection, since_ns)

    def levels(self, run_id: str) -> list[ArchivedLevel]:
        """Every level of a run, in the order of arrival."""
        with self._read() as connection:
            return queries.levels(connection, run_id)

    def runs(self, device_id: str | None = None, limit: int = 100) -> list[RunRow]:
        """The newest ``limit`` runs by their start, of one device or of all."""
        with self._read() as connection:
            return queries.runs(connection, device_id, limit)

    def run(self, run_id: str) -> Run | None:
        """The newest snapshot of a run; ``None`` for a run that is not known."""
        with self._read() as connection:
            return queries.run(connection, run_id)

    def devices(self) -> list[DeviceRow]:
        """Every device that was heard, by its id."""
        with self._read() as connection:
            return queries.devices(connection)

    def counts_by_kind(self) -> dict[str, int]:
        """Archived envelopes by kind, decoded or not."""
        with self._read() as connection:
            return queries.counts_by_kind(connection)

    def cursor(self, name: str) -> int:
        """The last row that a projection has dealt with; 0 before its first."""
        with self._read() as connection:
            return queries.cursor(connection, name)

    def set_cursor(self, name: str, row_id: int) -> None:
        """Note that a projection has dealt with every row up to ``row_id``; may go back."""
        with self._write() as connection:
            moved = update(CURSORS).where(CURSORS.c.name == name).values(row_id=row_id)
            if connection.execute(moved).rowcount == 0:
                connection.execute(insert(CURSORS).values(name=name, row_id=row_id))

    def add_dead_letter(
        self, projection: str, row_id: int, line: str, error: str, at_ns: int
    ) -> None:
        """Keep a line that a projection's target refused for good, with the reason it gave."""
        letter = {
            "projection": projection,
            "row_id": row_id,
            "line": line,
            "error": error,
            "at_ns": at_ns,
        }
        with self._write() as connection:
            connection.execute(insert(DEAD_LETTERS).values(**letter))

    def dead_letters(self, projection: str) -> list[DeadLetter]:
        """What a projection's target refused, oldest first."""
        with self._read() as connection:
            return queries.dead_letters(connection, projection)

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        writer = self._engine.execution_options(**{WRITES: True})
        try:
            with self._writing, writer.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise ArchiveUnavailable(f"the archive does not write: {error.orig}") from error

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise ArchiveUnavailable(f"the archive does not read: {error.orig}") from error


def _append_one(connection: Connection, received: Received) -> Kept:
    envelope = received.envelope
    row = {
        "device_id": envelope.device_id,
        "epoch": envelope.epoch,
        "seq": envelope.seq,
        "kind": envelope.kind.value,
        "received_ns": received.received_ns,
        "effective_wall_ns": received.effective_wall_ns,
        "clock_trusted": received.clock_trusted,
        "transport": received.transport,
        "decoded": True,
        "error": "",
        "raw": received.raw,
    }
    row_id = decoded.insert_if_new(connection, ENVELOPES, row)
    if row_id is None:
        return _held(connection, received)
    error = _enter(connection, row_id, received)
    if error is not None:
        _note(connection, row_id, error)
    return Kept.STORED


def _held(connection: Connection, received: Received) -> Kept:
    """Whether what is held is the same: a spool restored from a copy counts once more."""
    envelope = received.envelope
    raw = connection.scalar(
        select(ENVELOPES.c.raw).where(
            ENVELOPES.c.device_id == envelope.device_id,
            ENVELOPES.c.epoch == envelope.epoch,
            ENVELOPES.c.seq == envelope.seq,
        )
    )
    return Kept.DUPLICATE if raw == received.raw else Kept.CONFLICT


def _enter(connection: Connection, row_id: int, received: Received) -> str | None:
    """Enter an archived envelope in the decoded tables; why it could not be, or ``None``."""
    decoded.see(connection, received.envelope.device_id, received.received_ns)
    return _decode(connection, row_id, received)


def _note(connection: Connection, row_id: int, error: str | None) -> None:
    noted = update(ENVELOPES).where(ENVELOPES.c.row_id == row_id)
    connection.execute(noted.values(decoded=error is None, error=error or ""))


def _decode(connection: Connection, row_id: int, received: Received) -> str | None:
    """Why an envelope cannot be decoded; ``None`` if it was, and half of it never."""
    try:
        with connection.begin_nested():
            decoded.decode_into_tables(connection, row_id, received)
    except OperationalError:
        raise  # the database, not this envelope
    except (WireError, ValueError, OverflowError, StatementError) as error:
        return str(error)
    return None


def _raw_after(connection: Connection, row_id: int) -> list[tuple[int, Received]]:
    rows = connection.execute(
        select(ENVELOPES)
        .where(ENVELOPES.c.row_id > row_id)
        .order_by(ENVELOPES.c.row_id)
        .limit(_REBUILD_CHUNK)
    )
    return [
        (
            row.row_id,
            Received(row.raw, envelopes.decode(row.raw), row.received_ns, row.transport),
        )
        for row in rows
    ]
