"""The archive's tables, as SQLAlchemy Core sees them; :mod:`.migrations` creates them.

``envelopes`` is the truth. ``runs``, ``levels``, ``devices``, ``events`` and ``telemetry`` are
decoded from it and can be rebuilt; ``cursors`` and ``dead_letters`` belong to the projections.
Instants are ns since 1970. Epochs and sequence numbers are plain integers: both have 63 bits at
most, which is what ``BIGINT`` and SQLite's ``INTEGER`` hold.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()

ENVELOPES = Table(
    "envelopes",
    METADATA,
    Column("row_id", BigInteger, primary_key=True),
    Column("device_id", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("received_ns", BigInteger, nullable=False),
    Column("effective_wall_ns", BigInteger, nullable=False),
    Column("clock_trusted", Boolean, nullable=False),
    Column("transport", Text, nullable=False),
    Column("decoded", Boolean, nullable=False),
    Column("error", Text, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    UniqueConstraint("device_id", "epoch", "seq"),
)

RUNS = Table(
    "runs",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("row_id", BigInteger, nullable=False),
    Column("device_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("started_wall_ns", BigInteger, nullable=False),
    Column("ended_wall_ns", BigInteger),
    Column("n_levels", BigInteger, nullable=False),
)

LEVELS = Table(
    "levels",
    METADATA,
    Column("row_id", BigInteger, primary_key=True, autoincrement=False),
    Column("run_id", Text, nullable=False),
    Column("contender_id", Text, nullable=False),
    Column("session", BigInteger, nullable=False),
    Column("workload", Text, nullable=False),
    Column("concurrency", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("device_id", Text, nullable=False),
    Column("hardware_class", Text, nullable=False),
    Column("performance_state", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("level_json", Text, nullable=False),
    UniqueConstraint("run_id", "contender_id", "session", "workload", "concurrency", "attempt"),
)

DEVICES = Table(
    "devices",
    METADATA,
    Column("device_id", Text, primary_key=True),
    Column("first_seen_ns", BigInteger, nullable=False),
    Column("last_seen_ns", BigInteger, nullable=False),
    # The envelopes that last described the device, last said what it holds, and last measured.
    Column("device_row_id", BigInteger),
    Column("heartbeat_row_id", BigInteger),
    Column("telemetry_row_id", BigInteger),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("row_id", BigInteger, primary_key=True, autoincrement=False),
    Column("device_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("attributes_json", Text, nullable=False),
)

TELEMETRY = Table(
    "telemetry",
    METADATA,
    Column("row_id", BigInteger, primary_key=True, autoincrement=False),
    Column("device_id", Text, nullable=False),
    # The envelope that had described the device when this one came: a projection that is
    # repeated after the device was given other labels must still say the same.
    Column("device_row_id", BigInteger),
)

CURSORS = Table(
    "cursors",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("row_id", BigInteger, nullable=False),
)

DEAD_LETTERS = Table(
    "dead_letters",
    METADATA,
    Column("letter_id", BigInteger, primary_key=True),
    Column("projection", Text, nullable=False),
    Column("row_id", BigInteger, nullable=False),
    Column("line", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("at_ns", BigInteger, nullable=False),
)

SCHEMA_VERSION = Table(
    "schema_version",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
)

DECODED = (RUNS, LEVELS, DEVICES, EVENTS, TELEMETRY)
"""What :meth:`.archive.Archive.rebuild` empties and fills again from ``envelopes``."""
