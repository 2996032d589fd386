"""Rows that were stored elsewhere, taken as they are: damaged files, old ones, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.room import Rank, room_for
from edgesweep_agent.core.spooled import row_check, row_id

from . import ledger
from .rows import ROW_BYTES
from .shelves import rank_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep_agent.core.room import Held
    from edgesweep_agent.core.spooled import Frozen

    from .store import Store


def adopt(store: Store, rows: Sequence[Frozen], *, make_room: bool = True) -> int:
    """Take rows, but for those that are here already; within a change of the store.

    Args:
        store: What takes them.
        rows: In the order of their making.
        make_room: Results push out what they may, and are taken in any case: they were on this
            disk before. What else has no room is dropped and noted.

    Returns:
        How many were taken.
    """
    store.write_done()
    held = store.held() if make_room else None
    count = 0
    for row in rows:
        where = row_id(store.rows.learn(row.epoch), row.seq)
        if store.rows.shelves.find(where) is None and not store.aside.has(where):
            taken, held = _taken(store, where, row, held)
            count += taken
    return count


def _taken(store: Store, where: int, row: Frozen, held: Held | None) -> tuple[bool, Held | None]:
    check = row_check(row.epoch, row.seq, row.kind, row.data)
    if row.reason is not None:
        store.aside.add(where, row.kind, check, row.data, row.reason)
        return True, held
    if held is not None:
        rank, size = rank_of(row.kind), len(row.data) + ROW_BYTES
        room = room_for(size, rank, held, store.limits)
        if rank is not Rank.RESULT and (not room.admitted or room.from_telemetry):
            # What is here is newer.
            store.ledger.drop(ledger.FULL, [(where, row.kind)])
            return False, held
        store.make_room(room.from_delivered, room.from_telemetry)
        held = held.after(room, size)
    store.rows.put(where, row.kind, check, row.data)
    if row.epoch == store.epoch:
        store.rows.state.next_seq = max(store.next_seq, row.seq + 1)
    return True, held
