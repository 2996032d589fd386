"""The durable outbox: what was measured stays here until the collector's archive has it.

A row whose ``append`` returned survives a power cut. The file may be damaged, its disk full or
gone: the agent runs all the same, and whatever is dropped is counted and told.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from edgesweep_agent.core.room import Limits, Rank
from edgesweep_agent.core.split import UnsplittableError, split
from edgesweep_agent.errors import SpoolError

from . import ledger, listing
from .copies import SpoolCopy
from .file import SpoolFile
from .memory import in_memory, move
from .opening import Conditions
from .status import SpoolStatus, status_of
from .store import Refused, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from edgesweep.delivery import Key, Parcel
    from edgesweep.events import Ranges
    from edgesweep.records import Event

    from .listing import Cursor, Listed
    from .shelves import Place
    from .store import Entry, Seal

TELL_S = 60.0
"""What was dropped is told at most once in this."""
FLUSH_COUNT = 256
"""So many delivered rows are written down at once, whatever else there is to write."""
EVENTS = 64
"""More events at once than are ever told."""
REMEMBER_NS = 600 * 10**9
"""How old the time in the file may get."""


class Spool:
    """The outbox of one device. Not thread-safe: the daemon calls it from one worker thread."""

    def __init__(
        self, file: SpoolFile, new_epoch: Callable[[], int], clock: Callable[[], float]
    ) -> None:
        self._file = file
        self._memory: Store | None = None
        self._new_epoch = new_epoch
        self._clock = clock
        self._tell_s = 0.0
        self._refused = 0
        self._no_room = ""
        self._wall_ns = 0

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        new_epoch: Callable[[], int],
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        disk_free: Callable[[], int | None] | None = None,
    ) -> Spool:
        """Open or create the spool at ``path``.

        A damaged file is set aside, and its rows are saved. On a disk that does not work the
        spool lives in memory, and tries to open the file again.

        Args:
            path: The SQLite file; its folder is created.
            new_epoch: Gives a random 63-bit number.
            limits: How much of the disk it may take.
            clock: Monotonic seconds.
            disk_free: Bytes that are left for us on the disk of ``path``.

        Raises:
            SpoolError: another agent has it open.
            SettingsError: it cannot be made there.
        """
        conditions = Conditions(limits or Limits(), disk_free or (lambda: _left(path)), new_epoch)
        file = SpoolFile(path, conditions, clock)
        file.open()
        return cls(file, new_epoch, clock)

    @staticmethod
    def read_only(path: Path) -> SpoolCopy:
        """A spool that no agent runs on, such as a copy: to look into, and to export.

        Raises:
            SpoolError: it is not there, or an agent has it open.
        """
        return SpoolCopy(path)

    @property
    def epoch(self) -> int:
        """Of what is stored from now on."""
        return self._newest().epoch

    @property
    def quarantined(self) -> Path | None:
        """Where a damaged file was set aside by this agent."""
        return self._file.quarantined

    @property
    def trouble(self) -> str:
        """What keeps it from taking records, for people; or ""."""
        return self._file.trouble or self._no_room

    # -- in ------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> list[Key | Refused]:
        """Store entries in one commit; they are on the disk when this returns.

        Returns:
            The key of each, or why there is no room for it. Room is made by telemetry, oldest
            first, and of heartbeats only the newest stays; results that wait never make any.

        Raises:
            SpoolError: the disk does not take them; none of them is stored.
        """
        outcomes = self._file.write(lambda store: store.append(entries), numbers=len(entries))
        refused = [one.reason for one in outcomes if isinstance(one, Refused)]
        self._refused += len(refused)
        self._no_room = refused[-1] if refused else ""
        return outcomes

    def hold(self, entries: Sequence[Entry]) -> list[Key | Refused]:
        """Keep entries in memory, where little has room: they move to the disk once it takes them.

        They are delivered meanwhile, under an epoch of their own.
        """
        return self._in_memory().append(entries)

    def drop(self, kinds: Mapping[str, int]) -> None:
        """Count records that nobody has any more since there was no room, by kind."""
        try:
            self._file.write(lambda store: store.note(ledger.FULL, kinds))
        except SpoolError:
            self._in_memory().note(ledger.FULL, kinds)

    # -- out -----------------------------------------------------------------------------

    def head(
        self, limit: int, budget_bytes: int = 2**40, skip: Collection[Key] = ()
    ) -> list[Parcel]:
        """The next parcels to deliver: by priority, then in the order of their making.

        Args:
            limit: So many at most.
            budget_bytes: No more once they have so many bytes together.
            skip: Those that are on their way already.
        """
        found: list[Parcel] = []
        for rank in Rank:
            for ask in (self._file_head, self._memory_head):
                left = budget_bytes - sum(len(parcel.data) for parcel in found)
                found += ask(rank, limit - len(found), left, skip)
        return found

    def settle(self, delivered: Sequence[Key], rejected: Sequence[Key], reason: str) -> None:
        """The archive has these; the collector refused those, and they are set aside.

        What was delivered is out of sight at once and written down with the next commit: after
        a crash before it, it is delivered once more.

        Raises:
            SpoolError: the disk does not take what was rejected.
        """
        self._file.read(lambda store: store.settle(delivered), None)
        if self._memory is not None:
            self._memory.settle(delivered)
            self._memory.flush()
        if rejected:
            self.refuse(rejected, reason)
        elif self._file.store is not None and self._file.store.unwritten >= FLUSH_COUNT:
            with suppress(SpoolError):
                self._file.write(Store.flush)

    def resend(self, epoch: int, ranges: Ranges) -> Ranges:
        """Let delivered rows wait again; the ranges of what is not here any more.

        Raises:
            SpoolError: the disk does not take it.
        """
        if self._memory is not None and self._memory.rows.number(epoch) is not None:
            ranges = self._memory.resend(epoch, ranges)
        return self._file.write(lambda store: store.resend(epoch, ranges))

    def refuse(self, keys: Sequence[Key], reason: str) -> None:
        """Set rows aside, with the reason for people.

        Raises:
            SpoolError: the disk does not take it.
        """
        if self._memory is not None:
            self._memory.refuse(self._memory.rows.places(keys), reason)
        if self._file.store is not None:
            self._file.write(lambda store: store.refuse(store.rows.places(keys), reason))

    def requeue(self, keys: Sequence[Key] | None = None) -> int:
        """Let rows that were set aside wait again, all without ``keys``; how many there were.

        Raises:
            SpoolError: the disk does not take it.
        """
        count = self._memory.requeue(keys) if self._memory is not None else 0
        return count + self._file.write(lambda store: store.requeue(keys))

    def replace(self, key: Key, parts: Sequence[Seal]) -> list[Key]:
        """Several records instead of one, which the collector is told not to wait for.

        Raises:
            SpoolError: the disk does not take it.
        """
        return self._file.write(lambda store: store.replace(key, parts), numbers=len(parts))

    def shrink(self, key: Key, limit_bytes: int) -> None:
        """Make several of a record that is larger than the transport takes, or set it aside.

        Raises:
            SpoolError: the disk does not take it.
        """
        data = self._file.read(lambda store: store.data(key), None)
        if data is None:
            return
        try:
            parts = split(data, limit_bytes)
        except UnsplittableError as error:
            self.refuse([key], str(error))
        else:
            self.replace(key, parts)

    # -- beside --------------------------------------------------------------------------

    def tend(self) -> bool:
        """Do what is due beside all that; whether there is more to do at once.

        Open the file again, save the rows of a damaged one, move to it what had to wait in
        memory, write down what was delivered, hold the ballast, give room back to the disk.
        """
        try:
            more = self._file.tend()
            if self._memory is not None and self._file.store is not None:
                memory = self._memory
                more |= self._file.write(lambda store: move(memory, store))
        except SpoolError:
            return False
        return more

    def tell(self, sealed: Callable[[Event], Seal]) -> bool:
        """Store the word of what was dropped or damaged, if it is due; whether there was any."""
        if self._clock() < self._tell_s:
            return False
        told = False
        with suppress(SpoolError):
            if self._memory is not None:
                told = self._memory.tell(sealed)
            if self._file.store is not None:
                told |= self._file.write(lambda store: store.tell(sealed), numbers=EVENTS)
        if told:
            self._tell_s = self._clock() + TELL_S
        return told

    def status(self) -> SpoolStatus:
        """What waits, in rows and bytes."""
        stores = self._stores() or [self._in_memory()]
        return status_of(stores, refused=self._refused, trouble=self.trouble)

    def rows(self, limit: int) -> list[Listed]:
        """What waits, by priority and age, and what was refused."""
        return [row for store in self._stores() for row in listing.listed(store, limit)][:limit]

    def rejected(self, limit: int = 1000) -> list[Listed]:
        """What was set aside, oldest first."""
        return [row for store in self._stores() for row in listing.refused(store, limit)][:limit]

    def portion(self, cursor: Cursor) -> tuple[list[bytes], Cursor | None]:
        """Some envelopes that wait in the file, and where to go on; ``None`` behind the last."""
        nothing: tuple[list[bytes], Cursor | None] = ([], None)
        return self._file.read(lambda store: listing.portion(store, cursor), nothing)

    # -- what it remembers for others ----------------------------------------------------

    def is_finished(self, plan: str) -> bool:
        """Whether a plan that is to run once has run, or its results could not be kept now."""
        name = f"finished {plan}"
        return self._file.read(lambda store: store.facts.get(name) is not None, otherwise=True)

    def finish(self, plan: str) -> None:
        """Remember that a plan has run, beyond a restart.

        Raises:
            SpoolError: the disk does not take it.
        """
        self._file.write(lambda store: store.remember(f"finished {plan}", 1))

    def next_connection(self) -> int:
        """A number that rises at each start of the agent on this spool.

        Raises:
            SpoolError: the disk does not take it.
        """

        def count(store: Store) -> int:
            number = store.facts.number("connection", 0) + 1
            store.remember("connection", number)
            return number

        return self._file.write(count)

    def known_wall_ns(self) -> int | None:
        """A time that has passed for certain: the last good one that was noted."""
        return self._file.read(lambda store: store.facts.number("wall_ns", 0), 0) or None

    def note_wall_ns(self, wall_ns: int) -> None:
        """Note the time while the clock is good; written down now and then."""
        if abs(wall_ns - self._wall_ns) >= REMEMBER_NS:
            with suppress(SpoolError):
                self._file.write(lambda store: store.remember("wall_ns", wall_ns))
                self._wall_ns = wall_ns

    def close(self) -> None:
        """Move what is in memory to the disk if it takes it, close the file, release the lock."""
        if self._memory is not None:
            memory = self._memory
            with suppress(SpoolError):
                while self._file.write(lambda store: move(memory, store)):
                    pass
            memory.database.close()
            self._memory = None
        self._file.close()

    # -- ---------------------------------------------------------------------------------

    def _stores(self) -> list[Store]:
        return [store for store in (self._file.store, self._memory) if store is not None]

    def _newest(self) -> Store:
        return self._file.store or self._in_memory()

    def _in_memory(self) -> Store:
        if self._memory is None:
            self._memory = in_memory(self._new_epoch)
        return self._memory

    def _file_head(
        self, rank: Rank, limit: int, budget_bytes: int, skip: Collection[Key]
    ) -> list[Parcel]:
        nothing: tuple[list[Parcel], list[Place]] = ([], [])
        while True:
            parcels, damaged = self._file.read(
                lambda store: store.head(rank, limit, budget_bytes, skip), nothing
            )
            if not damaged:
                return parcels
            try:
                self._file.write(partial(Store.damaged, places=damaged))
            except SpoolError:
                return parcels

    def _memory_head(
        self, rank: Rank, limit: int, budget_bytes: int, skip: Collection[Key]
    ) -> list[Parcel]:
        if self._memory is None:
            return []
        return self._memory.head(rank, limit, budget_bytes, skip)[0]


def _left(path: Path) -> int | None:
    """Bytes that are left for us on the disk of a path."""
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
