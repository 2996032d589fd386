"""What has to wait in memory, since the disk takes nothing: a small store that is gone with us."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from edgesweep_agent.core.room import Limits, Rank
from edgesweep_agent.core.spooled import Frozen

from .adopting import adopt
from .opening import Conditions, created

if TYPE_CHECKING:
    from collections.abc import Callable

    from .store import Store

MEMORY = Limits(max_bytes=4 * 2**20, min_free_bytes=0, keep_delivered_bytes=0)
_PORTION = 256


def in_memory(new_epoch: Callable[[], int]) -> Store:
    """An empty store in memory, with an epoch of its own and the same order of precedence."""
    return created(Conditions(MEMORY, lambda: None, new_epoch))


def move(memory: Store, store: Store) -> bool:
    """Move what waits in memory into a file, as it is; whether there may be more.

    Raises:
        SpoolError: the file does not take it; it is in memory still.
    """
    memory.flush()
    waiting = (place for rank in Rank for place in memory.rows.waiting(rank))
    places = list(islice(waiting, _PORTION))
    refused = memory.aside.rows(_PORTION)
    if not places and not refused and not memory.ledger.untold:
        return False
    rows = [
        Frozen(
            *memory.rows.key(place.id),
            place.kind,
            memory.rows.shelves.read(place.rank, place.id)[2],
        )
        for place in places
    ]
    rows += [
        Frozen(*memory.rows.key(row), kind, data, reason) for row, kind, data, reason in refused
    ]
    # The file is committed first: what it has not got is in memory still.
    with memory.change(), store.change():
        adopt(store, rows)
        for dropped in memory.ledger.to_tell(memory.rows.epochs, memory.rows.current):
            store.ledger.add(dropped, store.rows.learn(dropped.epoch))
        memory.ledger.clear()
        memory.rows.remove(places)
        for row, *_ in refused:
            memory.aside.take(row)
    return bool(places)
