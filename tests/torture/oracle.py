"""What a spool was promised to hold, and whether it does."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from writer import is_what_it_was, opened, seal_event, told

from edgesweep.events import parsed_ranges

Key = tuple[int, int]


class BrokenError(AssertionError):
    """A promise was not kept."""


@dataclass
class Promises:
    """What the writers of one spool said.

    Attributes:
        stored: Keys that ``append`` returned.
        delivered: Keys that were handed to a collector, or were about to be.
        dropped: Ranges that a collector was told not to wait for, by epoch.
    """

    stored: set[Key] = field(default_factory=set)
    delivered: set[Key] = field(default_factory=set)
    dropped: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def copy(self) -> Promises:
        dropped = {epoch: list(ranges) for epoch, ranges in self.dropped.items()}
        return Promises(set(self.stored), set(self.delivered), dropped)

    def heard(self, lines: str) -> None:
        """What a writer said; a last line that is cut short was not said."""
        for line in lines.splitlines(keepends=True):
            if line.endswith("\n"):
                self._heard(line)

    def _heard(self, line: str) -> None:
        what, *rest = line.split()
        if what == "B":
            return
        if what == "T":
            epoch, ranges = (*rest, "")[:2]
            self.dropped.setdefault(int(epoch), []).extend(parsed_ranges(ranges))
            return
        keys = {(int(epoch), int(seq)) for epoch, _, seq in (one.partition(":") for one in rest)}
        if what == "A":
            twice = keys & self.stored
            if twice:
                raise BrokenError(f"numbers given out twice: {sorted(twice)[:5]}")
            self.stored |= keys
        else:
            self.delivered |= keys

    def is_dropped(self, key: Key) -> bool:
        return any(first <= key[1] <= last for first, last in self.dropped.get(key[0], ()))


def examined(folder, promises: Promises, *, drain: bool = False) -> None:
    """Open a spool, look whether all promises are kept, and close it again.

    Raises:
        BrokenError: one is not.
    """
    # A minute passes with each look at the clock: what is dropped is told whenever it may be.
    spool = opened(folder, clock=itertools.count(0, 61).__next__)
    try:
        while spool.tend():
            pass
        _examined(spool, promises)
        if drain:
            while parcels := spool.head(500):
                for one in parcels:
                    promises.heard(told(one))
                promises.delivered |= {one.key for one in parcels}
                spool.settle([one.key for one in parcels], [], "")
    finally:
        spool.close()


def _examined(spool, promises: Promises) -> None:
    parcels = spool.head(10**6)
    keys, rows = [one.key for one in parcels], spool.status().rows
    if len(set(keys)) != len(keys):
        raise BrokenError("a key waits twice")
    for one in parcels:
        if not is_what_it_was(one):
            raise BrokenError(f"{one.key} is not what was stored")
        promises.heard(told(one))
    rejected = {(one.epoch, one.seq) for one in spool.rejected(10**6)}
    here = {*keys, *rejected}
    _tell_all(spool, promises)
    missing = promises.stored - promises.delivered - here
    missing = {key for key in missing if not promises.is_dropped(key)}
    if missing:
        raise BrokenError(f"{len(missing)} stored records are gone: {sorted(missing)[:5]}")
    if rows != len(keys):
        raise BrokenError(f"{rows} rows are counted, and {len(keys)} wait")
    status = spool.status()
    beyond = [
        key for key in promises.stored if key[0] == status.epoch and key[1] >= status.next_seq
    ]
    if beyond:
        raise BrokenError(f"{sorted(beyond)[:5]} would be given out again")


def _tell_all(spool, promises: Promises) -> None:
    """Hear what was dropped and not told yet; some is delivered where that has no room."""
    spool.tell(seal_event)
    while spool._file.store.ledger.untold:
        parcels = spool.head(50)
        for one in parcels:
            promises.heard(told(one))
        promises.delivered |= {one.key for one in parcels}
        spool.settle([one.key for one in parcels], [], "")
        spool.tell(seal_event)
    for one in spool.head(10**6):
        promises.heard(told(one))
