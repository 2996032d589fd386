"""The small facts of a spool file, each with its check: epochs, counters, what is to be done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edgesweep.records import Event
from edgesweep_agent.core.spooled import epoch_check, fact_check

from .database import DamagedError

if TYPE_CHECKING:
    from .database import Database


_OWED = "owed"


class Facts:
    """Names and values; whoever changes them is in a transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, name: str) -> str | None:
        """The value of a fact.

        Raises:
            DamagedError: it is not what was written.
        """
        found = self._db.rows("SELECT value, crc FROM facts WHERE name = ?", (name,))
        if not found:
            return None
        ((value, crc),) = found
        if fact_check(name, str(value)) != crc:
            raise DamagedError(f"spool.path {self._db.path}: {name} is not what was written")
        return str(value)

    def check(self) -> None:
        """Read them all.

        Raises:
            DamagedError: one is not what was written.
        """
        for (name,) in self._db.rows("SELECT name FROM facts"):
            self.get(name)

    def number(self, name: str, default: int) -> int:
        """The value of a fact that is a number."""
        value = self.get(name)
        return default if value is None else int(value)

    def structure(self, name: str) -> Any:
        """The value of a fact that was put as a structure; ``None`` without one."""
        value = self.get(name)
        return None if value is None else json.loads(value)

    def put(self, name: str, value: object) -> None:
        """Write a fact down; what is neither text nor number as JSON."""
        text = str(value) if isinstance(value, (str, int)) else json.dumps(value)
        row = (name, text, fact_check(name, text))
        self._db.run("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", row)

    def forget(self, name: str) -> None:
        """Take a fact back."""
        self._db.run("DELETE FROM facts WHERE name = ?", (name,))

    def epochs(self) -> dict[int, int]:
        """The epochs whose rows this file has or had, by their number in it.

        Raises:
            DamagedError: they are not what was written.
        """
        found = {}
        for n, epoch, crc in self._db.rows("SELECT n, epoch, crc FROM epochs ORDER BY n"):
            if epoch_check(n, epoch) != crc:
                raise DamagedError(f"spool.path {self._db.path}: epoch {n} is not what was written")
            found[n] = epoch
        return found

    def add_epoch(self, epoch: int) -> int:
        """The number of an epoch that is new here."""
        n = self._db.number("SELECT MAX(n) FROM epochs") + 1
        row = (n, epoch, epoch_check(n, epoch))
        self._db.run("INSERT INTO epochs VALUES (?, ?, ?)", row)
        return n

    def owe(self, event: Event) -> None:
        """Remember an event that is to be stored once there is somebody to seal it."""
        owed = self.structure(_OWED) or []
        self.put(_OWED, [*owed, [event.name, event.message, dict(event.attributes)]])

    def owed(self) -> list[Event]:
        """The events of :meth:`owe`."""
        return [Event(*one) for one in self.structure(_OWED) or []]

    def pay(self) -> None:
        """They are stored."""
        self.forget(_OWED)
