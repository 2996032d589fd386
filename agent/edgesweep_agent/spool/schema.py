"""The tables of a spool file, and how a file of 0.1 becomes one of today.

Results, heartbeats and telemetry have a table each, in the order in which they were made: that
is the order of delivery, without an index that would be written as well. A result that was
delivered stays, and ``delivered`` says so; the row itself is not written again.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from edgesweep_agent.core.room import Rank

from .database import DamagedError

if TYPE_CHECKING:
    from .database import Database

VERSION = 2
TABLES = {Rank.RESULT: "results", Rank.HEARTBEAT: "heartbeats", Rank.TELEMETRY: "telemetry"}
_ROW = "id INTEGER PRIMARY KEY, kind TEXT NOT NULL, crc INTEGER NOT NULL, data BLOB NOT NULL"
_CREATE = {
    **{name: f"CREATE TABLE {name} ({_ROW})" for name in TABLES.values()},
    "delivered": "CREATE TABLE delivered (id INTEGER PRIMARY KEY, crc INTEGER NOT NULL)",
    "refused": f"CREATE TABLE refused ({_ROW}, reason TEXT NOT NULL)",
    "epochs": (
        "CREATE TABLE epochs (n INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, crc INTEGER NOT NULL)"
    ),
    "facts": (
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL)"
        " WITHOUT ROWID"
    ),
    "dropped": (
        "CREATE TABLE dropped (reason TEXT NOT NULL, first INTEGER NOT NULL,"
        " last INTEGER NOT NULL, told INTEGER NOT NULL, crc INTEGER NOT NULL,"
        " PRIMARY KEY (reason, first)) WITHOUT ROWID"
    ),
    "tally": (
        "CREATE TABLE tally (reason TEXT NOT NULL, n INTEGER NOT NULL, kind TEXT NOT NULL,"
        " count INTEGER NOT NULL, untold INTEGER NOT NULL, PRIMARY KEY (reason, n, kind))"
        " WITHOUT ROWID"
    ),
}
OLD_OUTBOX = "outbox"
_OLD = {"meta", OLD_OUTBOX, "outbox_order", "rejected", "finished"}


class Layout(Enum):
    """What a file holds."""

    EMPTY = "empty"
    OLD = "0.1"
    CURRENT = "current"


def layout_of(database: Database) -> Layout:
    """What a file holds.

    Raises:
        DamagedError: nothing of ours, or of a version that came later.
    """
    version = database.number("PRAGMA user_version")
    found = dict(
        database.rows("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    )
    if not found:
        return Layout.EMPTY
    if version == 0 and set(found) == _OLD:
        return Layout.OLD
    found.pop(OLD_OUTBOX, None)
    if version != VERSION or found != _CREATE:
        raise DamagedError(f"spool.path {database.path}: tables of version {version} are not ours")
    return Layout.CURRENT


def create(database: Database) -> None:
    """Make the tables; inside a transaction."""
    for statement in _CREATE.values():
        database.run(statement)
    database.run(f"PRAGMA user_version={VERSION}")
