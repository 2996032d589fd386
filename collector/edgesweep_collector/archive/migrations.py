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

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _TELEMETRY)
"""Step n brings an archive from version n to version n + 1."""


def migrate(connection: Connection) -> int:
    """Bring the archive to this version within the caller's transaction; return the version.

    Raises:
        ArchiveUnusable: a newer version wrote the archive.
    """
    connection.exec_driver_sql(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)"
    )
    version = connection.scalar(select(func.max(SCHEMA_VERSION.c.version))) or 0
    if version > len(MIGRATIONS):
        raise ArchiveUnusable(
            f"the archive has version {version}, this collector knows {len(MIGRATIONS)}: "
            "run the newer collector that wrote it"
        )
    types = TYPES[connection.dialect.name]
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        for statement in statements:
            connection.exec_driver_sql(statement.format(**types))
        connection.execute(insert(SCHEMA_VERSION).values(version=number))
    return len(MIGRATIONS)
