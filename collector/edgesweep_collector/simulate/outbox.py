"""What a simulated device has for a spool: its records in memory, until they are acknowledged."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from edgesweep.delivery import Key, Parcel
from edgesweep.records import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .life import Made

_RANKS = dict.fromkeys(Kind, 0) | {Kind.HEARTBEAT: 1, Kind.TELEMETRY: 2}
"""Results go first, telemetry last."""


class Outbox:
    """What waits, by rank and then by age."""

    def __init__(self) -> None:
        self._waiting: tuple[dict[Key, Parcel], ...] = ({}, {}, {})
        self._twice: set[Key] = set()

    def __len__(self) -> int:
        return sum(map(len, self._waiting))

    def put(self, made: Made) -> None:
        """Keep an envelope until it is settled."""
        key = made.epoch, made.seq
        parcel = Parcel(key, made.kind.value, made.data)
        self._waiting[_RANKS[made.kind]][key] = parcel
        if made.copies > 1:
            self._twice.add(key)

    def head(self, count: int) -> list[Parcel]:
        """The next parcels, those on their way included."""
        return list(islice(chain.from_iterable(one.values() for one in self._waiting), count))

    def settle(self, keys: Iterable[Key]) -> None:
        """They are archived, or refused for good."""
        for key in keys:
            self._twice.discard(key)
            for waiting in self._waiting:
                waiting.pop(key, None)

    def is_sent_twice(self, key: Key) -> bool:
        """Whether its sending is to be doubled now: the first time it is asked, if at all."""
        if key in self._twice:
            self._twice.remove(key)
            return True
        return False
