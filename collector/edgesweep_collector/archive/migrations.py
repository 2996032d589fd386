"""How the archive's tables came to be: an ordered list of SQL, each step applied once.

A step that has been released is never edited; a change is a new step at the end. The two types
that no SQL dialect shares (a growing key, bytes) are written as ``{key}`` and ``{bytes}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select

from edgesweep_collector.errors import ArchiveUnusable

from .schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from sqlalchemy import Connection

# AUTOINCREMENT keeps SQLite from using the key of a deleted last row again, which a cursor
# of a projection would then skip.
TYPES = {
    "sqlite": {"key": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB"},
    "postgresql": {
        "key": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "BYTEA",
    },
}

_FIRST = (
    """CREATE TABLE envelopes (
        row_id {key},
        device_id TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        kind TEXT NOT NULL,
        received_ns BIGINT NOT NULL,
        effective_wall_ns BIGINT NOT NULL,
        clock_trusted BOOLEAN NOT NULL,
        transport TEXT NOT NULL,
        decoded BOOLEAN NOT NULL,
        error TEXT NOT NULL,
        raw {bytes} NOT NULL,
        UNIQUE (device_id, epoch, seq)
    )""",
    "CREATE INDEX envelopes_kind ON envelopes (kind)",
    """CREATE TABLE runs (
        run_id TEXT PRIMARY KEY,
        row_id BIGINT NOT NULL REFERENCES envelopes (row_id),
        device_id TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        started_wall_ns BIGINT NOT NULL,
        ended_wall_ns BIGINT,
        n_levels BIGINT NOT NULL
    )""",
    "CREATE INDEX runs_started ON runs (started_wall_ns)",
    """CREATE TABLE levels (
        row_id BIGINT PRIMARY KEY REFERENCES envelopes (row_id),
        run_id TEXT NOT NULL,
        contender_id TEXT NOT NULL,
        session BIGINT NOT NULL,
        workload TEXT NOT NULL,
        concurrency BIGINT NOT NULL,
        attempt BIGINT NOT NULL,
        device_id TEXT NOT NULL,
        hardware_class TEXT NOT NULL,
        performance_state TEXT NOT NULL,
        status TEXT NOT NULL,
        level_json TEXT NOT NULL,
        UNIQUE (run_id, contender_id, session, workload, concurrency, attempt)
    )""",
    """CREATE TABLE devices (
        device_id TEXT PRIMARY KEY,
        first_seen_ns BIGINT NOT NULL,
        last_seen_ns BIGINT NOT NULL,
        device_row_id BIGINT REFERENCES envelopes (row_id),
        heartbeat_row_id BIGINT REFERENCES envelopes (row_id)
    )""",
    """CREATE TABLE events (
        row_id BIGINT PRIMARY KEY REFERENCES envelopes (row_id),
        device_id TEXT NOT NULL,
        name TEXT NOT NULL,
        message TEXT NOT NULL,
        attributes_json TEXT NOT NULL
    )""",
    "CREATE TABLE cursors (name TEXT PRIMARY KEY, row_id BIGINT NOT NULL)",
    """CREATE TABLE dead_letters (
        letter_id {key},
        projection TEXT NOT NULL,
        row_id BIGINT NOT NULL,
        line TEXT NOT NULL,
        error TEXT NOT NULL,
        at_ns BIGINT NOT NULL
    )""",
    "CREATE INDEX dead_letters_projection ON dead_letters (projection)",
)

_TELEMETRY = (
    """CREATE TABLE telemetry (
        row_id BIGINT PRIMARY KEY REFERENCES envelopes (row_id),
        device_id TEXT NOT NULL,
        device_row_id BIGINT REFERENCES envelopes (row_id)
    )""",
    "ALTER TABLE devices ADD COLUMN telemetry_row_id BIGINT REFERENCES envelopes (row_id)",
)

# A column that was NOT NULL is replaced, since SQLite changes none in place.
_TIMES = (
    "ALTER TABLE envelopes ADD COLUMN fixed_ns BIGINT",
    "UPDATE envelopes SET fixed_ns = effective_wall_ns",
    "ALTER TABLE envelopes DROP COLUMN effective_wall_ns",
    "ALTER TABLE envelopes RENAME COLUMN fixed_ns TO effective_wall_ns",
    "ALTER TABLE envelopes ADD COLUMN time_source TEXT",
    """UPDATE envelopes SET time_source =
        CASE WHEN clock_trusted THEN 'device' ELSE 'received' END""",
    "ALTER TABLE envelopes DROP COLUMN clock_trusted",
    "ALTER TABLE envelopes ADD COLUMN clock TEXT NOT NULL DEFAULT ''",
    # Cursors counted rows: with the same numbers they mean what they meant.
    "ALTER TABLE envelopes ADD COLUMN ready BIGINT",
    "UPDATE envelopes SET ready = row_id WHERE decoded",
    "CREATE TABLE sequences (name TEXT PRIMARY KEY, last BIGINT NOT NULL)",
    "INSERT INTO sequences SELECT 'ready', coalesce(max(row_id), 0) FROM envelopes",
    "DROP INDEX envelopes_kind",
    "CREATE INDEX envelopes_ready ON envelopes (kind, ready)",
    "CREATE INDEX envelopes_received ON envelopes (kind, received_ns)",
    "CREATE INDEX envelopes_undecoded ON envelopes (row_id) WHERE NOT decoded",
    """CREATE TABLE boots (
        device_id TEXT NOT NULL,
        boot_id TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        top_seq BIGINT NOT NULL,
        heard_ns BIGINT NOT NULL,
        bound_ns BIGINT,
        offset_ns BIGINT,
        synced BOOLEAN NOT NULL,
        began_ns BIGINT,
        ended_ns BIGINT,
        connection BIGINT NOT NULL,
        came_back BOOLEAN NOT NULL,
        PRIMARY KEY (device_id, boot_id)
    )""",
    """CREATE TABLE waiting (
        row_id BIGINT PRIMARY KEY,
        device_id TEXT NOT NULL,
        boot_id TEXT NOT NULL,
        mono_ns BIGINT NOT NULL,
        received_ns BIGINT NOT NULL
    )""",
)

# Without the references to envelopes: to delete one, each would be searched for without an index.
_UNBOUND = (
    "ALTER TABLE runs RENAME TO runs_old",
    """CREATE TABLE runs (
        run_id TEXT PRIMARY KEY,
        row_id BIGINT NOT NULL,
        device_id TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        started_wall_ns BIGINT NOT NULL,
        ended_wall_ns BIGINT,
        n_levels BIGINT NOT NULL
    )""",
    """INSERT INTO runs SELECT run_id, row_id, device_id, state, reason, started_wall_ns,
        ended_wall_ns, n_levels FROM runs_old""",
    "DROP TABLE runs_old",
    "CREATE INDEX runs_started ON runs (started_wall_ns)",
    "ALTER TABLE telemetry RENAME TO telemetry_old",
    """CREATE TABLE telemetry (
        row_id BIGINT PRIMARY KEY,
        device_id TEXT NOT NULL,
        device_row_id BIGINT
    )""",
    "INSERT INTO telemetry SELECT row_id, device_id, device_row_id FROM telemetry_old",
    "DROP TABLE telemetry_old",
    "ALTER TABLE devices RENAME TO devices_old",
    """CREATE TABLE devices (
        device_id TEXT PRIMARY KEY,
        first_seen_ns BIGINT NOT NULL,
        last_seen_ns BIGINT NOT NULL,
        device_row_id BIGINT,
        heartbeat_row_id BIGINT,
        telemetry_row_id BIGINT,
        boot_id TEXT,
        conflict_ns BIGINT
    )""",
    """INSERT INTO devices SELECT device_id, first_seen_ns, last_seen_ns, device_row_id,
        heartbeat_row_id, telemetry_row_id, NULL, NULL FROM devices_old""",
    "DROP TABLE devices_old",
)

_GAPS = (
    """CREATE TABLE ranges (
        device_id TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        first_seq BIGINT NOT NULL,
        last_seq BIGINT NOT NULL,
        since_ns BIGINT NOT NULL,
        PRIMARY KEY (device_id, epoch, first_seq)
    )""",
    # Numbers that follow each other keep their distance to a count.
    """INSERT INTO ranges
        SELECT device_id, epoch, min(seq), max(seq), min(received_ns) FROM (
            SELECT device_id, epoch, seq, received_ns, seq - row_number() OVER (
                PARTITION BY device_id, epoch ORDER BY seq
            ) AS island FROM envelopes
        ) AS numbered
        GROUP BY device_id, epoch, island""",
    "CREATE INDEX ranges_above_gaps ON ranges (device_id) WHERE first_seq > 1",
    """CREATE TABLE accounted (
        row_id BIGINT NOT NULL,
        part BIGINT NOT NULL,
        device_id TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        first_seq BIGINT,
        last_seq BIGINT,
        n BIGINT NOT NULL,
        reason TEXT NOT NULL,
        PRIMARY KEY (row_id, part)
    )""",
    "CREATE INDEX accounted_device ON accounted (device_id)",
    """CREATE TABLE asked (
        device_id TEXT NOT NULL,
        epoch BIGINT NOT NULL,
        first_seq BIGINT NOT NULL,
        last_seq BIGINT NOT NULL,
        asked_ns BIGINT NOT NULL,
        PRIMARY KEY (device_id, epoch, first_seq, last_seq)
    )""",
    """CREATE TABLE leases (
        name TEXT PRIMARY KEY,
        holder TEXT NOT NULL,
        until_ns BIGINT NOT NULL
    )""",
    "CREATE TABLE notes (name TEXT PRIMARY KEY, note TEXT NOT NULL)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _TELEMETRY, (*_TIMES, *_UNBOUND, *_GAPS))
"""Step n brings an archive from version n to version n + 1."""


def is_current(connection: Connection) -> bool:
    """Whether there is nothing to migrate.

    Raises:
        ArchiveUnusable: a newer version wrote the archive.
    """
    return _version(connection) == len(MIGRATIONS)


def migrate(connection: Connection) -> None:
    """Bring the archive to this version within the caller's transaction.

    Raises:
        ArchiveUnusable: a newer version wrote the archive.
    """
    connection.exec_driver_sql(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)"
    )
    version = _version(connection)
    types = TYPES[connection.dialect.name]
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        for statement in statements:
            connection.exec_driver_sql(statement.format(**types))
        connection.execute(insert(SCHEMA_VERSION).values(version=number))


def _version(connection: Connection) -> int:
    if not connection.dialect.has_table(connection, SCHEMA_VERSION.name):
        return 0
    version: int = connection.scalar(select(func.max(SCHEMA_VERSION.c.version))) or 0
    if version > len(MIGRATIONS):
        raise ArchiveUnusable(
            f"the archive has version {version}, this collector knows {len(MIGRATIONS)}: "
            "run the newer collector that wrote it"
        )
    return version
