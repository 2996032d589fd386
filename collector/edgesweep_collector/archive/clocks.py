"""Records whose time could not be fixed when they came: fixed once, as soon as it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_collector.core.clock import BootClock, at_last

from .append import take
from .statements import many, single

if TYPE_CHECKING:
    from sqlalchemy import Connection

CHUNK = 500

# Those whose clock was set meanwhile, which have waited long enough, or whose device was heard
# in a later boot, so that no clock of theirs will ever be set.
_DUE = """SELECT w.row_id, w.mono_ns, w.received_ns, b.bound_ns, b.offset_ns, b.synced
    FROM waiting w LEFT JOIN boots b ON b.device_id = w.device_id AND b.boot_id = w.boot_id
    WHERE b.synced OR w.received_ns <= {} OR EXISTS (
        SELECT 1 FROM boots later WHERE later.device_id = b.device_id
        AND later.boot_id <> b.boot_id AND (
            (later.epoch = b.epoch AND later.top_seq > b.top_seq)
            OR (later.epoch <> b.epoch AND later.heard_ns > b.heard_ns)
        )
    )
    ORDER BY w.row_id LIMIT {}"""
_FIX = """UPDATE envelopes SET effective_wall_ns = {}, time_source = {},
    ready = CASE WHEN decoded THEN {} END WHERE row_id = {}"""
_DONE = "DELETE FROM waiting WHERE row_id IN ({rows})"


def has_waiting(connection: Connection) -> bool:
    """Whether the time of any record is not fixed."""
    return bool(single(connection, "SELECT 1 FROM waiting LIMIT 1"))


def settle(connection: Connection, heard_before_ns: int) -> int:
    """Fix the times of up to :data:`CHUNK` records; how many.

    Args:
        connection: Within a transaction that holds the write lock.
        heard_before_ns: What came until then has waited long enough.
    """
    due = single(connection, _DUE, heard_before_ns, CHUNK)
    if not due:
        return 0
    place = take(connection, len(due))
    for ready, (row_id, mono_ns, received_ns, *clock) in enumerate(due, start=place):
        bound_ns, offset_ns, synced = clock
        fixed = at_last(mono_ns, received_ns, BootClock(bound_ns, offset_ns, bool(synced)))
        single(connection, _FIX, fixed.wall_ns, fixed.source.value, ready, row_id)
    many(connection, _DONE, "i", [(row[0],) for row in due])
    return len(due)
