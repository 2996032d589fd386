"""The archive's tables, as SQLAlchemy Core sees them; :mod:`.migrations` creates them.

``envelopes`` is the truth. ``runs``, ``levels``, ``devices``, ``events``, ``telemetry`` and
``accounted`` are decoded from it and can be rebuilt. ``boots``, ``waiting`` and ``ranges`` are
kept up as envelopes come, and outlive those that retention removes. ``cursors``, ``dead_letters``
and ``leases`` belong to the collectors. Instants are ns since 1970. Epochs and sequence numbers
are plain integers: both have 63 bits at most, which is what ``BIGINT`` and SQLite's ``INTEGER``
hold.
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
    Column("transport", Text, nullable=False),
    Column("decoded", Boolean, nullable=False),
    Column("error", Text, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    # The time that it counts for, and where that is from; both are null while it is not fixed.
    Column("effective_wall_ns", BigInteger),
    Column("time_source", Text),
    # What the device called its clock: "" of an envelope that an older version archived.
    Column("clock", Text, nullable=False, server_default=""),
    # Its place in the order in which rows were decoded and had their time fixed: what projections
    # count by, since a row that gets its time late must not be passed by a cursor.
    Column("ready", BigInteger),
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
    # The boot of its last birth, and when two machines were last seen to share its id.
    Column("boot_id", Text),
    Column("conflict_ns", BigInteger),
)

BOOTS = Table(
    "boots",
    METADATA,
    Column("device_id", Text, primary_key=True),
    Column("boot_id", Text, primary_key=True),
    # The highest number heard of it, which tells which of two boots is later.
    Column("epoch", BigInteger, nullable=False),
    Column("top_seq", BigInteger, nullable=False),
    Column("heard_ns", BigInteger, nullable=False),
    # As in core.clock.BootClock and core.machines.Life.
    Column("bound_ns", BigInteger),
    Column("offset_ns", BigInteger),
    Column("synced", Boolean, nullable=False),
    Column("began_ns", BigInteger),
    Column("ended_ns", BigInteger),
    Column("connection", BigInteger, nullable=False),
    Column("came_back", Boolean, nullable=False),
)

WAITING = Table(
    "waiting",
    METADATA,
    # Envelopes whose time is not fixed.
    Column("row_id", BigInteger, primary_key=True, autoincrement=False),
    Column("device_id", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("mono_ns", BigInteger, nullable=False),
    Column("received_ns", BigInteger, nullable=False),
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

RANGES = Table(
    "ranges",
    METADATA,
    # Sequence numbers that are settled: archived here once, or accounted for.
    Column("device_id", Text, primary_key=True),
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("first_seq", BigInteger, primary_key=True, autoincrement=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("since_ns", BigInteger, nullable=False),
)

ACCOUNTED = Table(
    "accounted",
    METADATA,
    # What devices said will never come, and why; without numbers for what never had any.
    Column("row_id", BigInteger, primary_key=True, autoincrement=False),
    Column("part", BigInteger, primary_key=True, autoincrement=False),
    Column("device_id", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("first_seq", BigInteger),
    Column("last_seq", BigInteger),
    Column("n", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
)

ASKED = Table(
    "asked",
    METADATA,
    # What was lately asked for again.
    Column("device_id", Text, primary_key=True),
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("first_seq", BigInteger, primary_key=True, autoincrement=False),
    Column("last_seq", BigInteger, primary_key=True, autoincrement=False),
    Column("asked_ns", BigInteger, nullable=False),
)

CURSORS = Table(
    "cursors",
    METADATA,
    Column("name", Text, primary_key=True),
    # A number of envelopes.ready; it counted envelopes.row_id once, whence its name.
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

LEASES = Table(
    "leases",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until_ns", BigInteger, nullable=False),
)

SEQUENCES = Table(
    "sequences",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("last", BigInteger, nullable=False),
)

NOTES = Table(
    "notes",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("note", Text, nullable=False),
)

SCHEMA_VERSION = Table(
    "schema_version",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
)

DECODED = (RUNS, LEVELS, EVENTS, TELEMETRY, ACCOUNTED)
"""What :meth:`.archive.Archive.rebuild` empties and fills again from ``envelopes``."""
