"""What is in a spool, for people and for files to be carried: rows as they lie there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep import envelope
from edgesweep.envelope import WireError
from edgesweep_agent.core.room import Rank

if TYPE_CHECKING:
    from .store import Store

PORTION = 64
"""So many rows at a time: a stick that takes its time keeps nothing else waiting."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One row, for people.

    Attributes:
        state: ``waiting``, ``delivered`` or ``refused``.
        wall_ns: When it was made by the device's clock; ``None`` if its envelope is damaged.
        reason: Why it was refused; or "".
    """

    epoch: int
    seq: int
    kind: str
    size_bytes: int
    state: str
    wall_ns: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a file to be carried has come: from this row of this rank on."""

    rank: Rank = Rank.RESULT
    row: int = -(2**63)


def listed(store: Store, limit: int) -> list[Listed]:
    """What waits, by priority and age, and then what was refused."""
    found: list[Listed] = []
    for rank in Rank:
        for place in store.rows.waiting(rank):
            if len(found) >= limit:
                return found
            data = store.rows.shelves.read(rank, place.id)[2]
            found.append(shown(store.rows.key(place.id), place.kind, data, "waiting"))
    return found + refused(store, limit - len(found))


def refused(store: Store, limit: int) -> list[Listed]:
    """What was set aside, oldest first."""
    return [
        shown(store.rows.key(row), kind, data, "refused", reason)
        for row, kind, data, reason in store.aside.rows(limit)
    ]


def shown(key: tuple[int, int], kind: str, data: bytes, state: str, reason: str = "") -> Listed:
    """A row for people."""
    try:
        wall_ns = envelope.decode(data).wall_ns
    except WireError:
        wall_ns = None
    return Listed(*key, kind, len(data), state, wall_ns, reason)


def portion(store: Store, cursor: Cursor) -> tuple[list[bytes], Cursor | None]:
    """The next envelopes that wait, and where to go on; ``None`` behind the last."""
    places = store.rows.shelves.after(cursor.rank, cursor.row, PORTION)
    if not places:
        ranks = list(Rank)[cursor.rank + 1 :]
        return [], Cursor(ranks[0]) if ranks else None
    waiting = (place for place in places if store.rows.waits(place))
    data = [store.rows.shelves.read(cursor.rank, place.id)[2] for place in waiting]
    return data, Cursor(cursor.rank, places[-1].id + 1)
