"""The archive: everything that was accepted, exactly as it came, committed before it is acked."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import insert, update
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from edgesweep.records import Kind
from edgesweep_collector.errors import ArchiveUnavailable, ArchiveUnusable

from . import append, backup, clocks, gaps, leases, queries, rebuild, retention
from .engine import WRITES, check_encoding, open_engine, reading
from .migrations import is_current, migrate
from .schema import CURSORS, DEAD_LETTERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sqlalchemy import Connection, Engine

    from edgesweep.carried import Carried
    from edgesweep.events import Ranges
    from edgesweep.records import Run
    from edgesweep_collector.settings import ArchiveSettings

    from .rows import (
        ArchivedLevel,
        ArchivedTelemetry,
        Ask,
        Backlog,
        DeadLetter,
        DeviceRow,
        EpochGaps,
        HeartbeatRow,
        Kept,
        Received,
        RunRow,
    )

_log = logging.getLogger(__name__)

# Faults of a statement and not of the database: waiting would not mend them.
_OURS = (DataError, IntegrityError, ProgrammingError)


class Archive:
    """An append-only store of envelopes, with the tables decoded from them.

    Every method opens and ends its own transaction, and may be called from any thread; writers
    take turns. A method that writes raises :class:`.ArchiveUnavailable` when the database does
    not, and then nothing of that call was stored.

    Cursors count records in the order in which they became ready: decoded, with their time fixed.
    A record that waits for its device's clock gets a place of its own later, above all others, so
    that no cursor ever passes it. The ``row_id`` of what is read here is that place.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writer = engine.execution_options(**{WRITES: True})
        self._reader = reading(engine)
        self._writing = threading.Lock()

    @classmethod
    def open(cls, url: str, *, create: bool = True, password_file: str | None = None) -> Archive:
        """Open the archive at a database URL and bring its tables to this version.

        Args:
            url: ``sqlite:///path`` (the file and its parents are created), or PostgreSQL's.
            create: Whether an SQLite file that does not exist may be created.
            password_file: Where PostgreSQL's password is.

        Raises:
            SettingsError: not a usable URL, or a password file that cannot be read.
            ArchiveUnusable: it cannot be opened, is no archive, or is of a newer version.
        """
        archive = cls(open_engine(url, create=create, password_file=password_file))
        try:
            archive._bring_here()
        except (ArchiveUnavailable, ArchiveUnusable) as error:
            archive.close()
            raise ArchiveUnusable(f"cannot open the archive: {error}") from error
        except BaseException:
            archive.close()
            raise
        return archive

    @classmethod
    def of(cls, settings: ArchiveSettings, *, create: bool = True) -> Archive:
        """Open the archive of ``[archive]``; errors as of :meth:`open`."""
        return cls.open(settings.url, create=create, password_file=settings.password_file)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def append(self, batch: Sequence[Received]) -> list[Kept]:
        """Store a batch in one transaction; it is committed when this returns.

        A payload that this version cannot decode is stored as it came, with the reason beside it.

        Returns:
            For each envelope whether it was stored, or was held already (by the archive or by
            this batch), or is another record under the name of one that is held.

        Raises:
            ArchiveUnavailable: the database refused, and nothing of the batch was stored.
        """
        if not batch:
            return []
        opened = append.open_all(batch)
        now_ns = max(received.received_ns for received in batch)
        with self._write() as connection:
            appended = append.append(connection, opened, now_ns)
        for device_id in appended.shared:
            # Once a day, until somebody gives one of them an id of its own.
            _log.error("two machines report under one device id", extra={"device": device_id})
        return appended.kept

    def settle_clocks(self, now_ns: int, wait_ns: int = 15 * 60 * 10**9) -> int:
        """Fix the times of records that waited for their device's clock; how many.

        To be called every few seconds by one collector: see :mod:`edgesweep_collector.core.clock`.

        Args:
            now_ns: Now, in ns since 1970.
            wait_ns: How long a record waits for its device's clock to be set.
        """
        with self._read() as connection:
            if not clocks.has_waiting(connection):
                return 0
        count = 0
        while True:
            with self._write() as connection:
                done = clocks.settle(connection, now_ns - wait_ns)
            count += done
            if done < clocks.CHUNK:
                return count

    def prune(self, now_ns: int, keep_telemetry_ns: int, keep_heartbeats_ns: int) -> dict[str, int]:
        """Delete readings and heartbeats that were received longer ago; how many of each kind.

        Projected or not: what InfluxDB did not take in that time it never will. The last of each
        device stay. To be called every hour by one collector; ingest goes on meanwhile.
        """
        removed = {}
        for kind, keep_ns in (
            (Kind.TELEMETRY, keep_telemetry_ns),
            (Kind.HEARTBEAT, keep_heartbeats_ns),
        ):
            removed[kind.value] = 0
            while (done := self._prune_chunk(kind, now_ns - keep_ns)) > 0:
                removed[kind.value] += done
        return removed

    def rebuild(self) -> None:
        """Empty the decoded tables and fill them again from the raw envelopes.

        One transaction: readers see the old tables until the new ones are whole.
        """
        with self._write() as connection:
            rebuild.read_all(connection)
            rebuild.note_reader(connection)

    def lease(self, name: str, holder: str, now_ns: int, ttl_ns: int) -> bool:
        """Give ``holder`` a lease, or prolong it; ``False`` while another one holds it.

        Args:
            name: What for: a projection, ``prune``, ``clocks``.
            holder: Unlike that of any other collector.
            now_ns: Now; the clocks of all collectors agree to within a share of the term.
            ttl_ns: After that it may be another's; 0 gives it back.
        """
        with self._write() as connection:
            return leases.lease(connection, name, holder, now_ns, ttl_ns)

    def levels_after(self, row_id: int, limit: int) -> list[ArchivedLevel]:
        """Up to ``limit`` levels above a cursor, ascending; one that comes later is above them."""
        with self._read() as connection:
            return queries.levels_after(connection, row_id, limit)

    def telemetry_after(self, row_id: int, limit: int) -> list[ArchivedTelemetry]:
        """Up to ``limit`` telemetry records above a cursor, as for levels."""
        with self._read() as connection:
            return queries.telemetry_after(connection, row_id, limit)

    def backlog(self, kind: Kind, after: int, until: int | None = None) -> Backlog:
        """What there is of a kind above a cursor, and up to another one."""
        with self._read() as connection:
            return queries.backlog(connection, kind, after, until)

    def row_before(self, kind: Kind, since_ns: int) -> int:
        """The cursor below the first record of a kind at or after an effective time."""
        with self._read() as connection:
            return queries.cursor_before(connection, kind, since_ns)

    def sensors_up(self, since_ns: int) -> dict[str, dict[str, bool]]:
        """By device and sensor, from each device's last heartbeat if it came since then."""
        with self._read() as connection:
            return queries.sensors_up(connection, since_ns)

    def heartbeats(self, since_ns: int) -> list[HeartbeatRow]:
        """The last heartbeat of each device, of those that came since an instant."""
        with self._read() as connection:
            return queries.heartbeats(connection, since_ns)

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

    def shared_ids(self, since_ns: int) -> list[str]:
        """Devices whose id two machines were seen to share since an instant."""
        with self._read() as connection:
            return queries.shared_ids(connection, since_ns)

    def counts_by_kind(self) -> dict[str, int]:
        """Archived envelopes by kind, decoded or not."""
        with self._read() as connection:
            return queries.counts_by_kind(connection)

    def gaps(self) -> list[EpochGaps]:
        """Every spool of a device of which something is missing, or was accounted for."""
        with self._read() as connection:
            return gaps.gaps(connection)

    def missing(self) -> dict[str, int]:
        """By device, how many records never came and were not accounted for."""
        with self._read() as connection:
            return gaps.missing_by_device(connection)

    def gaps_to_ask(self, device_ids: Collection[str], now_ns: int) -> list[Ask]:
        """What these devices are to be asked for again now; it then counts as asked.

        Missing for two minutes, and not asked for within ten; a collector asks those devices that
        it reaches. What a device answered not to have any more is not missing.
        """
        with self._read() as connection:
            found = gaps.asks(connection, device_ids, now_ns)
        if found:
            with self._write() as connection:
                found = gaps.asks(connection, device_ids, now_ns)
                gaps.note_asked(connection, found, now_ns)
        return found

    def note_had(self, device_id: str, epoch: int, ranges: Ranges, now_ns: int) -> None:
        """Take note that these numbers were archived elsewhere, though not all are here."""
        settled = gaps.Settled()
        settled.told(device_id, epoch, ranges)
        with self._write() as connection:
            settled.keep(connection, now_ns)

    def carried(self) -> Iterator[Carried]:
        """Everything that is here now, for a backup; ingest goes on meanwhile."""
        with self._read() as connection:
            until = backup.top(connection)
        after = 0
        while after < until:
            with self._read() as connection:
                after, found = backup.chunk(connection, after, until)
            yield from found
        with self._read() as connection:
            found = backup.had(connection)
        yield from found

    def cursor(self, name: str) -> int:
        """How far a projection is; 0 before its first record."""
        with self._read() as connection:
            return queries.cursor(connection, name)

    def set_cursor(self, name: str, row_id: int, *, expected: int | None = None) -> bool:
        """Note how far a projection is; may go back.

        Args:
            name: The projection's.
            row_id: The place of the last record that it has dealt with.
            expected: Only if it still is here.

        Returns:
            Whether it was.
        """
        with self._write() as connection:
            if expected is not None and queries.cursor(connection, name) != expected:
                return False
            moved = update(CURSORS).where(CURSORS.c.name == name).values(row_id=row_id)
            if connection.execute(moved).rowcount == 0:
                connection.execute(insert(CURSORS).values(name=name, row_id=row_id))
        return True

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

    def _bring_here(self) -> None:
        with self._read() as connection:
            check_encoding(connection)
            if is_current(connection) and not rebuild.knows_more(connection):
                return
        with self._write() as connection:
            migrate(connection)
        after: int | None = 0
        while after is not None:
            with self._write() as connection:
                after = rebuild.read_again(connection, after)
        with self._write() as connection:
            rebuild.note_reader(connection)

    def _prune_chunk(self, kind: Kind, before_ns: int) -> int:
        with self._read() as connection:
            if not retention.old(connection, kind, before_ns):
                return 0
        with self._write() as connection:
            row_ids = retention.old(connection, kind, before_ns)
            retention.remove(connection, row_ids)
        return len(row_ids)

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        try:
            with self._writing, self._writer.begin() as connection:
                yield connection
        except _OURS:
            raise
        except (DBAPIError, PoolTimeoutError) as error:
            raise ArchiveUnavailable(f"the archive does not write: {_words(error)}") from error

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        try:
            with self._reader.begin() as connection:
                yield connection
        except (DBAPIError, PoolTimeoutError) as error:
            raise ArchiveUnavailable(f"the archive does not read: {_words(error)}") from error


def _words(error: DBAPIError | PoolTimeoutError) -> str:
    """What the database said, in one line."""
    said = error.orig if isinstance(error, DBAPIError) else error
    return " ".join(str(said).split())
