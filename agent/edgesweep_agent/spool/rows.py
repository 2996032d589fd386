"""The rows of a store and what is known of them without asking the file, changed together."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from edgesweep_agent.core.room import Held, Rank
from edgesweep_agent.core.spooled import MAX_SEQ, mark_check, parts_of, row_check, row_id

from .database import DamagedError
from .shelves import Place, Shelves, rank_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from edgesweep.delivery import Key

    from .database import Database
    from .facts import Facts

ROW_BYTES = 48
"""What a row takes beside its data: its own columns, and its share of the pages above it."""
_PORTION = 256
LOWEST = -(2**63)
"""No row has a lower id; a damaged one may have any."""


@dataclass(slots=True)
class State:
    """What waits, by kind; what is done; and where to look first.

    Attributes:
        kept: Delivered results that stay, and their bytes.
        done: Delivered rows of which the file does not know it yet, and their bytes.
        first: By rank, no row before this one waits.
        told: Rows that tell what was dropped, and may not have been delivered.
    """

    next_seq: int = 1
    saved_next: int = 1
    rows: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    kept: dict[int, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    first: dict[Rank, int] = field(default_factory=lambda: dict.fromkeys(Rank, LOWEST))
    told: set[int] = field(default_factory=set)

    def copy(self) -> State:
        """As it is now."""
        return replace(
            self,
            rows=self.rows.copy(),
            bytes=self.bytes.copy(),
            kept=self.kept.copy(),
            done=self.done.copy(),
            first=self.first.copy(),
            told=self.told.copy(),
        )

    def came(self, kind: str, size: int) -> None:
        """A row more waits."""
        self.rows[kind] += 1
        self.bytes[kind] += size

    def went(self, kind: str, size: int) -> None:
        """A row less waits."""
        self.rows[kind] -= 1
        self.bytes[kind] -= size


class Rows:
    """Rows by (epoch, seq); whoever changes them does it within :meth:`change`.

    Raises:
        DamagedError: the facts are not what was written.
    """

    def __init__(self, database: Database, facts: Facts) -> None:
        self.shelves = Shelves(database)
        self._db = database
        self._facts = facts
        self._epochs = facts.epochs()
        self._numbers = {epoch: n for n, epoch in self._epochs.items()}
        self.current = facts.number("current", 0)
        if self.current not in self._epochs:
            raise DamagedError(f"spool.path {database.path}: it does not know its epoch")
        self.state = self._counted()

    def _counted(self) -> State:
        state = State(saved_next=self._facts.number("next", 1))
        for kind, count, size in self.shelves.counts():
            state.rows[kind] += count
            state.bytes[kind] += size
        n, seq = parts_of(self.shelves.last(row_id(self.current + 1, 0)))
        state.next_seq = max(state.saved_next, seq + 1 if n == self.current else 1)
        for row, crc in self._db.rows("SELECT id, crc FROM delivered ORDER BY id"):
            place = self.shelves.find(row) if crc == self._mark(row) else None
            if place is not None:
                state.kept[row] = place.size
                state.went(place.kind, place.size)
        return state

    # -- who is who ----------------------------------------------------------------------

    @property
    def epochs(self) -> dict[int, int]:
        """All epochs of this store, by their number in it."""
        return self._epochs

    def key(self, row: int) -> Key:
        """The key of a row; of one that is damaged beyond that, in epoch 0."""
        n, seq = parts_of(row)
        return self._epochs.get(n, 0), seq

    def row(self, key: Key) -> int | None:
        """The id of a key; ``None`` of an epoch that is unknown here."""
        n = self._numbers.get(key[0])
        return None if n is None or key[1] > MAX_SEQ else row_id(n, key[1])

    def number(self, epoch: int) -> int | None:
        """The number of an epoch; ``None`` if it is unknown here."""
        return self._numbers.get(epoch)

    def learn(self, epoch: int) -> int:
        """The number of an epoch, a new one if it is unknown here."""
        n = self._numbers.get(epoch)
        if n is None:
            n = self._facts.add_epoch(epoch)
            self._epochs[n], self._numbers[epoch] = epoch, n
        return n

    def next_key(self) -> Key:
        """The key of a new row."""
        seq = self.state.next_seq
        self.state.next_seq += 1
        return self._epochs[self.current], seq

    def places(self, keys: Iterable[Key]) -> list[Place]:
        """Where the rows of keys are; those that are not here are left out."""
        ids = (self.row(key) for key in keys)
        found = (self.shelves.find(row) for row in ids if row is not None)
        return [place for place in found if place is not None]

    def waits(self, place: Place) -> bool:
        """Whether a row is still to be delivered."""
        return place.id not in self.state.kept and place.id not in self.state.done

    def waiting(self, rank: Rank, passed: Collection[int | None] = ()) -> Iterator[Place]:
        """What waits of a rank, oldest first, but for those ``passed``."""
        start, leading = self.state.first[rank], True
        while places := self.shelves.after(rank, start, _PORTION):
            for place in places:
                waits = self.waits(place)
                if leading:
                    # Whoever asks next need not look at what is done.
                    self.state.first[rank] = place.id
                    leading = not waits
                if waits and place.id not in passed:
                    yield place
            start = places[-1].id + 1

    # -- changes -------------------------------------------------------------------------

    @contextmanager
    def change(self) -> Iterator[None]:
        """One transaction; what is known changes with the file or not at all."""
        before = self.state.copy()
        known = self._epochs.copy(), self._numbers.copy(), self.current
        try:
            with self._db.transaction():
                yield
                self._save_next()
        except BaseException:
            self.state = before
            self._epochs, self._numbers, self.current = known
            raise

    def begin_epoch(self, epoch: int) -> None:
        """Number new rows anew under ``epoch``."""
        self.current = self.learn(epoch)
        self._facts.put("current", self.current)
        self._facts.put("next", 1)
        self.state.next_seq = self.state.saved_next = 1

    def put(self, row: int, kind: str, crc: int, data: bytes) -> None:
        """Add one row."""
        self.put_all(rank_of(kind), [(row, kind, crc, data)])

    def put_all(self, rank: Rank, rows: Sequence[tuple[int, str, int, bytes]]) -> None:
        """Add rows, in order."""
        self.shelves.add(rank, rows)
        for row, kind, _, data in rows:
            self.state.came(kind, len(data))
            self.state.first[rank] = min(self.state.first[rank], row)

    def seal(self, kind: str, sealed: Callable[[int, int], bytes]) -> tuple[int, str, int, bytes]:
        """A new row of the current epoch."""
        epoch, seq = self.next_key()
        data = sealed(epoch, seq)
        return row_id(self.current, seq), kind, row_check(epoch, seq, kind, data), data

    def remove(self, places: Sequence[Place]) -> None:
        """Remove rows, whatever they are waiting for."""
        for place in places:
            if self.waits(place):
                self.state.went(place.kind, place.size)
            if self.state.kept.pop(place.id, None) is not None:
                self._db.run("DELETE FROM delivered WHERE id = ?", (place.id,))
            self.state.done.pop(place.id, None)
            self.shelves.remove(place.rank, [place.id])

    def write_done(self, keep_bytes: int) -> None:
        """Write down what was delivered: results are marked, all else is deleted."""
        for place in self._done():
            if place.rank is Rank.RESULT and keep_bytes:
                self._db.run(
                    "INSERT OR REPLACE INTO delivered VALUES (?, ?)",
                    (place.id, self._mark(place.id)),
                )
                self.state.kept[place.id] = place.size
            else:
                self.shelves.remove(place.rank, [place.id])
        self.state.done.clear()
        self.drop_kept(sum(self.state.kept.values()) - keep_bytes)

    def _done(self) -> list[Place]:
        found = (self.shelves.find(row) for row in sorted(self.state.done))
        return [place for place in found if place is not None]

    def revive(self, row: int) -> None:
        """Let a delivered row wait again."""
        size = self.state.kept.pop(row, None)
        if size is not None:
            self._db.run("DELETE FROM delivered WHERE id = ?", (row,))
        elif (size := self.state.done.pop(row, None)) is None:
            return
        place = self.shelves.find(row)
        if place is not None:
            self.state.came(place.kind, size)
            self.state.first[place.rank] = min(self.state.first[place.rank], row)

    def drop_kept(self, needed: int) -> None:
        """Remove the oldest delivered results, ``needed`` bytes of them."""
        gone = []
        for row in sorted(self.state.kept) if needed > 0 else ():
            if needed <= 0:
                break
            needed -= self.state.kept.pop(row) + ROW_BYTES
            gone.append(row)
        self._db.many("DELETE FROM delivered WHERE id = ?", ((row,) for row in gone))
        self.shelves.remove(Rank.RESULT, gone)

    def drop_telemetry(self, needed: int) -> list[tuple[int, str]]:
        """Remove the oldest telemetry, ``needed`` bytes of it; (id, kind) of what is gone."""
        gone: list[tuple[int, str]] = []
        oldest = self._oldest(Rank.TELEMETRY, needed)
        for place in oldest:
            if self.waits(place):
                self.state.went(place.kind, place.size)
                gone.append((place.id, place.kind))
            self.state.done.pop(place.id, None)
        if oldest:
            self.shelves.remove_first(Rank.TELEMETRY, oldest[-1].id)
        return gone

    def _oldest(self, rank: Rank, needed: int) -> list[Place]:
        """As few of the oldest as have ``needed`` bytes."""
        found: list[Place] = []
        while needed > 0:
            places = self.shelves.after(rank, found[-1].id + 1 if found else LOWEST, _PORTION)
            if not places:
                break
            for place in places:
                if needed <= 0:
                    break
                needed -= place.size + ROW_BYTES
                found.append(place)
        return found

    def held(self, disk_free: int | None) -> Held:
        """How things stand, in bytes."""
        return Held(
            used=self._db.used_bytes,
            spare=self._db.spare_bytes,
            disk_free=disk_free,
            delivered=sum(self.state.kept.values()),
            telemetry=self.state.bytes["telemetry"],
        )

    def _save_next(self) -> None:
        # The number of the next row is that behind the last one, or was written down.
        n, seq = parts_of(self.shelves.last(row_id(self.current + 1, 0)))
        told = max(self.state.saved_next, seq + 1 if n == self.current else 1)
        if told < self.state.next_seq:
            self._facts.put("next", self.state.next_seq)
            self.state.saved_next = self.state.next_seq

    def _mark(self, row: int) -> int:
        return mark_check(*self.key(row))
