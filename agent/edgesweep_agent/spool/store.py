"""One spool, in a file or in memory: rows in, parcels out, each change one transaction.

It knows nothing of full disks, damage or other stores: an operation happens or raises, and then
nothing has changed.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep.delivery import Parcel
from edgesweep.envelope import to_ranges
from edgesweep.events import records_dropped
from edgesweep.records import Kind
from edgesweep_agent.core.ranges import without
from edgesweep_agent.core.room import RANKS, Rank, room_for
from edgesweep_agent.core.spooled import MAX_SEQ, intact, parts_of, row_check, row_id
from edgesweep_agent.errors import SpoolError

from . import ledger
from .adopting import adopt
from .aside import Aside
from .facts import Facts
from .ledger import Ledger
from .rows import ROW_BYTES, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from edgesweep.delivery import Key
    from edgesweep.events import Ranges
    from edgesweep.records import Event
    from edgesweep_agent.core.room import Held, Limits
    from edgesweep_agent.core.spooled import Frozen

    from .database import Database
    from .shelves import Place

    Seal = Callable[[int, int], bytes]
    Entry = tuple[Kind, Seal]


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that has no room, and why, for people."""

    reason: str


class NoRoomError(SpoolError):
    """The limits do not allow it; the disk is all right."""


class Store:
    """The rows of one database whose tables are those of today.

    Args:
        disk_free: Bytes that are left on the file system; ``None`` in memory.

    Raises:
        DamagedError: its facts are not what was written.
    """

    def __init__(
        self, database: Database, limits: Limits, disk_free: Callable[[], int | None]
    ) -> None:
        self.database = database
        self.limits = limits
        self.facts = Facts(database)
        self.facts.check()
        self.ledger = Ledger(database)
        self.aside = Aside(database)
        self.rows = Rows(database, self.facts)
        self._disk_free = disk_free
        self.rows.state.told = self.ledger.events()

    @contextmanager
    def change(self) -> Iterator[None]:
        """One commit of all that is done inside."""
        with self.rows.change():
            yield

    # -- in ------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> list[Key | Refused]:
        """Store entries in one commit, and write down what was delivered before.

        Returns:
            The key of each, or why it has no room.
        """
        with self.change():
            self.write_done()
            return self._add(entries)

    @property
    def epoch(self) -> int:
        """Of what is stored from now on."""
        return self.rows.epochs[self.rows.current]

    @property
    def next_seq(self) -> int:
        """The number of the next row."""
        return self.rows.state.next_seq

    @property
    def low(self) -> int:
        """Of the current epoch, nothing below this number is here or is to be told."""
        waiting = (
            next((one for one in self.rows.waiting(rank) if self._is_current(one)), None)
            for rank in Rank
        )
        ids = [one.id for one in waiting if one]
        ids += [row for row in self.aside.ids() if parts_of(row)[0] == self.rows.current][:1]
        untold = self.ledger.first(self.rows.current) or self.next_seq
        return min([untold, *(parts_of(row)[1] for row in ids)])

    @property
    def rows_by_kind(self) -> dict[str, int]:
        """What waits, in rows."""
        return {kind: count for kind, count in self.rows.state.rows.items() if count}

    @property
    def waiting_bytes(self) -> int:
        """What waits, in bytes."""
        return sum(self.rows.state.bytes.values())

    @property
    def unwritten(self) -> int:
        """How many rows were delivered of which the file does not know it yet."""
        return len(self.rows.state.done)

    def data(self, key: Key) -> bytes | None:
        """The bytes of a row that is here."""
        for place in self.rows.places([key]):
            return self.rows.shelves.read(place.rank, place.id)[2]
        return None

    # -- out -----------------------------------------------------------------------------

    def head(
        self, rank: Rank, limit: int, budget_bytes: int, skip: Collection[Key] = ()
    ) -> tuple[list[Parcel], list[Place]]:
        """The next parcels of a rank in the order of their making, and what is damaged on the way.

        They end with the first that uses up the budget.
        """
        passed = {self.rows.row(key) for key in skip}
        parcels: list[Parcel] = []
        damaged: list[Place] = []
        for place in self.rows.waiting(rank, passed):
            if len(parcels) >= limit or budget_bytes <= 0:
                break
            key = self.rows.key(place.id)
            kind, crc, data = self.rows.shelves.read(rank, place.id)
            if crc == row_check(*key, kind, data):
                parcels.append(Parcel(key, kind, data))
                budget_bytes -= place.size
            else:
                damaged.append(place)
        return parcels, damaged

    def settle(self, keys: Sequence[Key]) -> None:
        """Rows that the archive has: gone from here on; written down with the next commit."""
        for place in self.rows.places(keys):
            if self.rows.waits(place):
                self.rows.state.done[place.id] = place.size
                self.rows.state.went(place.kind, place.size)

    def flush(self) -> None:
        """Write down what was delivered."""
        if self.rows.state.done:
            with self.change():
                self.write_done()

    def resend(self, epoch: int, ranges: Ranges) -> Ranges:
        """Let delivered rows wait again; the ranges of what is not here any more."""
        n = self.rows.number(epoch)
        missing: list[tuple[int, int]] = []
        with self.change():
            for first, last in ranges:
                here = [] if n is None else self._here(n, first, last)
                for row in here:
                    self.rows.revive(row)
                missing += without(first, last, to_ranges(parts_of(row)[1] for row in here))
        return tuple(missing)

    # -- aside ---------------------------------------------------------------------------

    def refuse(self, places: Sequence[Place], reason: str) -> None:
        """Set rows aside; the oldest of those that were make room, and are noted as dropped."""
        with self.change():
            self._set_aside(places, reason)

    def remember(self, name: str, value: object) -> None:
        """Write a fact down."""
        with self.change():
            self.facts.put(name, value)

    @property
    def kept_bytes(self) -> int:
        """Delivered results that stay, in bytes."""
        return sum(self.rows.state.kept.values())

    def damaged(self, places: Sequence[Place]) -> None:
        """Rows that are not what was written: put where they belong, or set aside as lost."""
        whole: list[Frozen] = []
        lost: list[Place] = []
        for place in places:
            _, crc, data = self.rows.shelves.read(place.rank, place.id)
            found = intact(crc, data)
            if found is None:
                lost.append(place)
            else:
                whole.append(found)
        with self.change():
            self._set_aside(lost, "damaged on the disk")
            self.ledger.drop(ledger.DAMAGED, [(place.id, place.kind) for place in lost])
            self.rows.remove([place for place in places if place not in lost])
            adopt(self, whole, make_room=False)

    def requeue(self, keys: Sequence[Key] | None = None) -> int:
        """Let rows that were set aside wait again, all of them without ``keys``; how many."""
        rows = self.aside.ids() if keys is None else [self.rows.row(key) for key in keys]
        count = 0
        with self.change():
            for row in rows:
                found = None if row is None else self.aside.take(row)
                if row is not None and found is not None:
                    self.rows.put(row, *found)
                    count += 1
        return count

    def replace(self, key: Key, parts: Sequence[Seal]) -> list[Key]:
        """Others instead of a row, such as several of a record that was too large."""
        keys = []
        with self.change():
            for place in self.rows.places([key]):
                for part in parts:
                    row = self.rows.seal(place.kind, part)
                    self.rows.put(*row)
                    keys.append(self.rows.key(row[0]))
                self.rows.remove([place])
                self.ledger.drop(ledger.SPLIT, [(place.id, place.kind)])
        return keys

    # -- what was dropped ----------------------------------------------------------------

    def note(self, reason: str, kinds: Mapping[str, int]) -> None:
        """Note records that were dropped before they had a number."""
        with self.change():
            self.ledger.drop_unnumbered(reason, kinds)

    def lose(self, epoch: int, first: int, last: int, found: Collection[int]) -> Ranges:
        """Note the numbers of an epoch that are neither here nor ``found`` as lost; which.

        Within a change.
        """
        n = self.rows.learn(epoch)
        aside = [row for row in self.aside.ids() if parts_of(row)[0] == n]
        seqs = [parts_of(row)[1] for row in (*self._here(n, first, last), *aside)]
        lost = without(first, last, to_ranges([*seqs, *found]))
        self.ledger.lose(ledger.DAMAGED, n, lost)
        return lost

    def tell(self, sealed: Callable[[Event], Seal]) -> bool:
        """Store events that tell what was dropped or damaged; whether there was any.

        Not before those that were stored last have been delivered: while nobody listens, what
        is dropped adds up to fewer ranges.

        Raises:
            NoRoomError: they have none.
        """
        if any(self._waits(event) for event in self.rows.state.told):
            return False
        owed = self.facts.owed()
        if not owed and not self.ledger.untold:
            return False
        with self.change():
            dropped = self.ledger.to_tell(self.rows.epochs, self.rows.current)
            events = [*owed, *map(records_dropped, dropped)]
            self.facts.pay()
            stored = self._add([(Kind.EVENT, sealed(event)) for event in events])
            if any(isinstance(one, Refused) for one in stored):
                raise NoRoomError("no room for the word of what was dropped")
            event = row_id(self.rows.current, self.next_seq - 1)
            self.ledger.told(event)
            self.rows.state.told.add(event)
        return True

    # -- within a change -----------------------------------------------------------------

    def held(self) -> Held:
        """How things stand, in bytes."""
        return self.rows.held(self._disk_free())

    def write_done(self) -> None:
        """Write down what was delivered."""
        self.rows.write_done(self.limits.keep_delivered_bytes)
        for event in [row for row in self.rows.state.told if not self._waits(row)]:
            self.ledger.heard(event)
            self.rows.state.told.discard(event)

    def _waits(self, row: int) -> bool:
        place = self.rows.shelves.find(row)
        return place is not None and self.rows.waits(place)

    def _add(self, entries: Sequence[Entry]) -> list[Key | Refused]:
        held = self.held()
        outcomes: list[Key | Refused] = []
        fresh: dict[Rank, list[tuple[int, str, int, bytes]]] = {rank: [] for rank in Rank}
        out = Counter[str]()
        for kind, sealed in entries:
            row = self.rows.seal(kind.value, sealed)
            room = room_for(len(row[3]) + ROW_BYTES, RANKS[kind], held, self.limits)
            if not room.admitted:
                self.rows.state.next_seq -= 1
                outcomes.append(Refused(room.reason))
                continue
            held = held.after(room, len(row[3]) + ROW_BYTES)
            out["delivered"] += room.from_delivered
            out["telemetry"] += room.from_telemetry
            fresh[RANKS[kind]].append(row)
            outcomes.append(self.rows.key(row[0]))
        self.make_room(out["delivered"], out["telemetry"])
        self._supersede(fresh[Rank.HEARTBEAT])
        for rank, rows in fresh.items():
            self.rows.put_all(rank, rows)
        return outcomes

    def make_room(self, from_delivered: int, from_telemetry: int) -> None:
        """Let so many bytes of each go, the oldest first."""
        self.rows.drop_kept(from_delivered)
        self.ledger.drop(ledger.FULL, self.rows.drop_telemetry(from_telemetry))

    def _supersede(self, fresh: list[tuple[int, str, int, bytes]]) -> None:
        """Of heartbeats only the newest stays: an old one says nothing that a new one does not."""
        if fresh:
            before = list(self.rows.waiting(Rank.HEARTBEAT))
            self.rows.remove(before)
            gone = [(place.id, place.kind) for place in before]
            gone += [(row, kind) for row, kind, _, _ in fresh[:-1]]
            self.ledger.drop(ledger.SUPERSEDED, gone)
            del fresh[:-1]

    def _set_aside(self, places: Sequence[Place], reason: str) -> None:
        for place in places:
            kind, crc, data = self.rows.shelves.read(place.rank, place.id)
            self.aside.add(place.id, kind, crc, data, reason)
        self.rows.remove(places)
        self.ledger.drop(ledger.REFUSED, self.aside.trim(self.limits.aside_bytes))

    def _is_current(self, place: Place) -> bool:
        return parts_of(place.id)[0] == self.rows.current

    def _here(self, n: int, first: int, last: int) -> list[int]:
        if first > MAX_SEQ:
            return []
        return self.rows.shelves.ids(row_id(n, first), row_id(n, min(last, MAX_SEQ)))
