"""A spool of 0.1 in its new tables: the small ones at once, the outbox in steps.

Its rows move within the file, so that a nearly full disk does. The epoch and the numbers go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.spooled import Frozen, row_check, row_id

from .adopting import adopt
from .facts import Facts
from .schema import OLD_OUTBOX, create

if TYPE_CHECKING:
    from .database import Database
    from .store import Store

STEP_ROWS = 256
_EPOCH = 1
"""A file of 0.1 has one epoch, the first of those to come."""


def begin(database: Database) -> None:
    """Make the tables of today beside the old outbox.

    Raises:
        SpoolError: the disk takes nothing.
    """
    with database.transaction():
        meta = dict(database.rows("SELECT key, value FROM meta"))
        finished = database.rows("SELECT plan FROM finished")
        refused = database.rows("SELECT seq, kind, data, reason FROM rejected ORDER BY seq")
        for table in ("meta", "finished", "rejected"):
            database.run(f"DROP TABLE {table}")
        database.run("DROP INDEX outbox_order")
        create(database)
        facts = Facts(database)
        facts.put("current", facts.add_epoch(meta["epoch"]))
        facts.put("next", meta["next_seq"])
        facts.put("connection", meta.get("connection", 0))
        for (plan,) in finished:
            facts.put(f"finished {plan}", 1)
        database.many(
            "INSERT INTO refused VALUES (?, ?, ?, ?, ?)",
            (_refused(meta["epoch"], *row) for row in refused),
        )


def _refused(
    epoch: int, seq: int, kind: str, data: bytes, reason: str
) -> tuple[int, str, int, bytes, str]:
    return row_id(_EPOCH, seq), kind, row_check(epoch, seq, kind, data), data, reason


def pending(store: Store) -> Migration | None:
    """What is still to be moved."""
    sql = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return Migration() if store.database.rows(sql, (OLD_OUTBOX,)) else None


class Migration:
    """The moving of the old outbox."""

    def step(self, store: Store) -> bool:
        """Move some rows; whether there are more.

        Raises:
            SpoolError: the disk takes nothing.
        """
        epoch = store.rows.epochs[_EPOCH]
        found = store.database.rows(
            "SELECT seq, kind, data FROM outbox ORDER BY seq LIMIT ?", (STEP_ROWS,)
        )
        rows = [Frozen(epoch, seq, kind, data) for seq, kind, data in found]
        with store.change():
            adopt(store, rows, make_room=False)
            if rows:
                store.database.run("DELETE FROM outbox WHERE seq <= ?", (rows[-1].seq,))
            else:
                store.database.run("DROP TABLE outbox")
        return bool(rows)

    def close(self) -> None:
        """Nothing is open."""
