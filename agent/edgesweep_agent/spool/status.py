"""How a spool is, in figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .store import Store


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """How much waits, and for what.

    Attributes:
        rejected: Rows that were set aside.
        delivered_bytes: Results that were delivered and stay, in case they are asked for again.
        dropped: By kind, how many records of this file will never be delivered.
        refused: Records that had no room; whoever made them was told.
        trouble: What keeps it from taking records, for people; or "".
    """

    epoch: int
    next_seq: int
    rows: int
    bytes: int
    rejected: int
    rows_by_kind: dict[str, int]
    delivered_bytes: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    trouble: str = ""


def status_of(stores: Sequence[Store], *, refused: int, trouble: str) -> SpoolStatus:
    """The sum of some stores; new records go to the first."""
    rows, dropped = Counter[str](), Counter[str]()
    for store in stores:
        rows.update(store.rows_by_kind)
        dropped.update(store.ledger.totals())
    return SpoolStatus(
        epoch=stores[0].epoch,
        next_seq=stores[0].next_seq,
        rows=sum(rows.values()),
        bytes=sum(store.waiting_bytes for store in stores),
        rejected=sum(store.aside.size()[0] for store in stores),
        rows_by_kind=dict(rows),
        delivered_bytes=sum(store.kept_bytes for store in stores),
        dropped=dict(dropped),
        refused=refused,
        trouble=trouble,
    )
