"""What is kept for a time only: readings and heartbeats. Results, births and events stay.

A chunk is one transaction, so that ingest never waits for long. Nothing has to be accounted for:
``ranges`` goes on to say that the numbers of what is removed were here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep.records import Kind

from .statements import many, single

if TYPE_CHECKING:
    from sqlalchemy import Connection

CHUNK = 500
# Pages of a file that are given back to the disk with each chunk; a chunk frees about as many.
_PAGES = 1000

# The last heartbeat and the last telemetry of each device stay, however old.
_POINTED = {Kind.TELEMETRY: "telemetry_row_id", Kind.HEARTBEAT: "heartbeat_row_id"}
_OLD = """SELECT e.row_id FROM envelopes e WHERE e.kind = {} AND e.received_ns < {}
    AND NOT EXISTS (SELECT 1 FROM devices d
        WHERE d.device_id = e.device_id AND d.POINTER = e.row_id)
    ORDER BY e.received_ns LIMIT {}"""
_REMOVE = (
    "DELETE FROM telemetry WHERE row_id IN ({rows})",
    "DELETE FROM waiting WHERE row_id IN ({rows})",
    "DELETE FROM envelopes WHERE row_id IN ({rows})",
)


def old(connection: Connection, kind: Kind, before_ns: int) -> list[int]:
    """Rows of up to a chunk of envelopes that were received before an instant."""
    query = _OLD.replace("POINTER", _POINTED[kind])
    return [row[0] for row in single(connection, query, kind.value, before_ns, CHUNK)]


def remove(connection: Connection, row_ids: list[int]) -> None:
    """Delete envelopes and what was decoded from them."""
    for statement in _REMOVE:
        many(connection, statement, "i", [(row_id,) for row_id in row_ids])
    if connection.dialect.name == "sqlite":
        # A page a step, though it has no columns: only the driver's own cursor takes them all.
        cursor = connection.connection.cursor()
        cursor.execute(f"PRAGMA incremental_vacuum({_PAGES})")
        cursor.fetchall()
        cursor.close()
