"""When may which envelope leave, and when is it done: one state machine for every transport.

Pure: it is told what happened and at which monotonic second, and answers what to do next. A
transport only moves bytes. A row is done when the collector's ack says so, never when a
broker or a socket took it. The rules:

* at most ``window_count`` envelopes and ``window_bytes`` bytes are unacknowledged;
* an envelope without an ack is sent again after ``resend_s``, doubled at each try up to
  ``resend_max_s``, with jitter, and at once after a reconnect;
* an ack may cover any ranges in any order; what is stored or a duplicate is done, what is
  rejected is done and named, what is to be retried waits as long as the collector asked;
* the back-off between connections doubles with full jitter and resets after an ack, not
  after a mere connect: a server that accepts and drops would otherwise be hammered
  (novastone-media/MQTT-Client-Framework#169, espressif/esp-rainmaker-neo-firmware#1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .envelope import AckStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .envelope import Ack

Key = tuple[int, int]
"""(epoch, seq): the identity of an envelope for transport."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds and pauses, in counts, bytes and seconds."""

    window_count: int = 100
    window_bytes: int = 1024 * 1024
    resend_s: float = 10.0
    resend_max_s: float = 300.0
    backoff_s: float = 1.0
    backoff_max_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Parcel:
    """An encoded envelope on its way; ``topic_kind`` is the last level of its topic."""

    key: Key
    topic_kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Settlement:
    """What an ack settled: rows that may be deleted, and those the collector refused."""

    delivered: tuple[Key, ...] = ()
    rejected: tuple[Key, ...] = ()
    reason: str = ""


@dataclass(slots=True)
class _Flight:
    parcel: Parcel
    tries: int = 0
    due_s: float = 0.0


@dataclass(slots=True)
class Delivery:
    """The state machine. ``jitter`` gives uniform numbers in [0, 1)."""

    jitter: Callable[[], float]
    policy: Policy = field(default_factory=Policy)
    _flights: dict[Key, _Flight] = field(default_factory=dict)
    _bytes: int = 0
    _failures: int = 0

    @property
    def in_flight(self) -> int:
        """Envelopes in the window."""
        return len(self._flights)

    def offer(self, parcels: Iterable[Parcel], now_s: float) -> int:
        """Take parcels into the window, in order, while it has room; how many were new.

        What is in the window already is passed over, so that the caller may offer the head
        of its spool again and again. One parcel larger than the window still goes, alone.
        """
        taken = 0
        for parcel in parcels:
            if parcel.key in self._flights:
                continue
            if not self._has_room(len(parcel.data)):
                break
            self._flights[parcel.key] = _Flight(parcel, due_s=now_s)
            self._bytes += len(parcel.data)
            taken += 1
        return taken

    def due(self, now_s: float) -> tuple[Parcel, ...]:
        """The parcels to send now, oldest first; each is then waited for."""
        flights = [flight for flight in self._flights.values() if flight.due_s <= now_s]
        for flight in flights:
            flight.tries += 1
            flight.due_s = now_s + self._resend_after(flight.tries)
        return tuple(flight.parcel for flight in flights)

    def next_due_s(self) -> float | None:
        """The instant at which :meth:`due` has something to give; ``None`` if nothing waits."""
        return min((flight.due_s for flight in self._flights.values()), default=None)

    def acked(self, ack: Ack, now_s: float) -> Settlement:
        """Settle what an ack covers; unknown keys are old news and are passed over."""
        self._failures = 0
        keys = [key for key in self._flights if _covers(ack, key)]
        if ack.status is AckStatus.RETRY:
            for key in keys:
                self._flights[key].due_s = now_s + max(ack.retry_after_s, self.policy.backoff_s)
            return Settlement()
        for key in keys:
            self._bytes -= len(self._flights.pop(key).parcel.data)
        if ack.status is AckStatus.REJECTED:
            return Settlement(rejected=tuple(keys), reason=ack.reason)
        return Settlement(delivered=tuple(keys))

    def disconnected(self) -> float:
        """The connection is gone: everything unacknowledged is due again after the pause.

        Returns:
            Seconds to wait before the next connect: full jitter over a doubling bound.
        """
        for flight in self._flights.values():
            flight.due_s = 0.0
        bound = min(self.policy.backoff_max_s, self.policy.backoff_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 30)
        return bound * self.jitter()

    def _has_room(self, size: int) -> bool:
        if not self._flights:
            return True
        return (
            len(self._flights) < self.policy.window_count
            and self._bytes + size <= self.policy.window_bytes
        )

    def _resend_after(self, tries: int) -> float:
        bound = min(self.policy.resend_max_s, self.policy.resend_s * 2.0 ** (tries - 1))
        return bound * (1.0 + 0.5 * self.jitter())


def _covers(ack: Ack, key: Key) -> bool:
    epoch, seq = key
    return epoch == ack.epoch and any(first <= seq <= last for first, last in ack.ranges)
