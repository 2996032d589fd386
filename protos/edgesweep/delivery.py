"""When may which envelope leave, and when is it done: one state machine for every transport.

Pure: it is told what happened and at which monotonic second, and answers what to do next. A
transport only moves bytes. A row is done when the collector's ack says so, never when a
broker or a socket took it. The rules:

* at most ``window_count`` envelopes and ``window_bytes`` bytes are unacknowledged;
* an envelope without an ack is sent again after ``resend_s``, doubled at each try up to
  ``resend_max_s``, with jitter, and at once after a reconnect; an ack starts the wait anew for
  whatever was sent after what it covers, so that a slow line is not filled with second copies;
* an ack may cover any ranges in any order; what is stored or a duplicate is done, what is
  rejected is done and named, what is to be retried waits as long as the collector asked, what
  is asked for again is due at once;
* where a broker has nobody to pass an envelope to, one of them asks now and then, alone;
* a connection on which something is waited for and nothing comes is to be made anew.

When to connect again is the part of :class:`Reconnect`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .envelope import AckStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from .envelope import Ack

Key = tuple[int, int]
"""(epoch, seq): the identity of an envelope for transport."""
Ranges = tuple[tuple[int, int], ...]
"""(first, last) sequence numbers of one epoch, both inclusive."""

_DOUBLINGS = 30
_PATIENCE_DOUBLINGS = 3


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds and pauses, in counts, bytes and seconds.

    Attributes:
        spread_s: After a connection that was stable, the first try is anywhere within this: a
            site's devices lose their broker all at once.
        stable_s: A connection that lasted so long was a good one; until then the pauses grow.
        stalled_s: So long something is waited for on a connection before it is made anew.
    """

    window_count: int = 100
    window_bytes: int = 1024 * 1024
    resend_s: float = 10.0
    resend_max_s: float = 300.0
    backoff_s: float = 1.0
    backoff_max_s: float = 60.0
    spread_s: float = 15.0
    stable_s: float = 60.0
    stalled_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Parcel:
    """An encoded envelope on its way; ``topic_kind`` is the last level of its topic."""

    key: Key
    topic_kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Settlement:
    """What an ack settled: rows that may be deleted, and those the collector refused.

    Attributes:
        again: Of the ack's epoch, what is asked for again and is not in the window.
    """

    delivered: tuple[Key, ...] = ()
    rejected: tuple[Key, ...] = ()
    reason: str = ""
    again: Ranges = ()


@dataclass(slots=True)
class Reconnect:
    """When to try again after a connection that ended, or was never made.

    The pause doubles from ``backoff_s`` to ``backoff_max_s`` and starts anew only after a
    connection that was stable. Neither a connect nor an ack resets it: two devices with one
    client id connect well, deliver, and throw each other out for ever
    (eclipse-mosquitto/mosquitto#631, espressif/esp-rainmaker-neo-firmware#1). Half of each pause
    is jitter; with all of it, eight connects in a minute would be usual.

    Attributes:
        jitter: Gives uniform numbers in [0, 1).
        early: Connections in a row that were made, and ended before they were stable.
    """

    jitter: Callable[[], float]
    policy: Policy
    early: int = 0
    _failures: int = 0
    _floor_s: float = 0.0
    _since_s: float | None = None

    def connected(self, now_s: float) -> None:
        """A connection was made."""
        self._since_s = now_s
        self._floor_s = 0.0

    def is_stable(self, now_s: float) -> bool:
        """Whether there is a connection that is a good one."""
        return self._since_s is not None and now_s - self._since_s >= self.policy.stable_s

    def left(self) -> None:
        """We ended it ourselves, to make another at once."""
        self._since_s = None

    def lost(self, now_s: float, *, at_least_s: float = 0.0, useless: bool = False) -> float:
        """It ended, or could not be made.

        Args:
            now_s: When.
            at_least_s: How long the other side asked to be left alone.
            useless: It was of no use, and it is known why: nothing came through, or something
                was too large for it.

        Returns:
            Seconds to wait before the next try.
        """
        stable, was_up = self.is_stable(now_s) and not useless, self._since_s is not None
        self._since_s = None
        if not stable:
            self.early += was_up and not useless
            return max(at_least_s, self._grown())
        self.early, self._failures = 0, 0
        # Tries that fail while it lasts would crowd at its end if they began at a second.
        self._floor_s = self.policy.spread_s
        return max(at_least_s, self.policy.spread_s * self.jitter())

    def _grown(self) -> float:
        grown = self.policy.backoff_s * 2.0**self._failures
        self._failures = min(self._failures + 1, _DOUBLINGS)
        return _half_sure(min(self.policy.backoff_max_s, max(self._floor_s, grown)), self.jitter())


@dataclass(slots=True)
class _Flight:
    """An envelope in the window.

    Attributes:
        order: Of its sending among all others.
        sent_s: When it was sent on this connection; ``None`` if no ack is waited for.
    """

    parcel: Parcel
    tries: int = 0
    due_s: float = 0.0
    order: int = 0
    sent_s: float | None = None


@dataclass(slots=True)
class Delivery:
    """The state machine. ``jitter`` gives uniform numbers in [0, 1)."""

    jitter: Callable[[], float]
    policy: Policy = field(default_factory=Policy)
    reconnect: Reconnect = field(init=False)
    _flights: dict[Key, _Flight] = field(default_factory=dict)
    _bytes: int = 0
    _order: int = 0
    _heard_s: float = float("-inf")
    _stalls: int = 0
    _unheard: int = 0
    _quiet_until_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.reconnect = Reconnect(self.jitter, self.policy)

    @property
    def in_flight(self) -> Collection[Key]:
        """What is in the window."""
        return self._flights.keys()

    @property
    def quiet(self) -> bool:
        """Whether a broker has nobody to hand envelopes on to, so that one at most is due."""
        return self._unheard > 0

    @property
    def awaited(self) -> int:
        """Envelopes that were sent on this connection and wait for their ack."""
        return sum(flight.sent_s is not None for flight in self._flights.values())

    @property
    def room(self) -> tuple[int, int]:
        """How many envelopes, and how many bytes, the window would take."""
        count = self.policy.window_count - len(self._flights)
        left = self.policy.window_bytes - self._bytes
        return (count, left) if count > 0 and left > 0 else (0, 0)

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
        """The parcels to send now, oldest first; each is given out once in its time."""
        flights = [flight for flight in self._flights.values() if flight.due_s <= now_s]
        if flights and self.quiet:
            flights = [] if now_s < self._quiet_until_s else flights[:1]
            if flights:
                self._quieten(now_s)
        for flight in flights:
            flight.tries += 1
            flight.due_s = now_s + self._resend_after(flight.tries)
        return tuple(flight.parcel for flight in flights)

    def sent(self, key: Key, now_s: float) -> None:
        """The wait for its ack begins.

        Said when it is handed to the transport, and again when that has taken it, which on a
        slow line may be much later.
        """
        if (flight := self._flights.get(key)) is not None:
            self._order += 1
            flight.order, flight.sent_s = self._order, now_s
            flight.due_s = now_s + self._resend_after(flight.tries)

    def next_due_s(self) -> float | None:
        """The instant at which :meth:`due` has something to give; ``None`` if nothing waits."""
        first = min((flight.due_s for flight in self._flights.values()), default=None)
        return max(first, self._quiet_until_s) if first is not None and self.quiet else first

    def acked(self, ack: Ack, now_s: float) -> Settlement:
        """Settle what an ack covers; unknown keys are old news and are passed over."""
        self._heard_s, self._stalls, self._unheard = now_s, 0, 0
        keys = [key for key in self._flights if _covers(ack, key)]
        if ack.status is AckStatus.RETRY:
            self._again(keys, now_s + max(ack.retry_after_s, self.policy.backoff_s))
            return Settlement()
        if ack.status is AckStatus.RESEND:
            self._again(keys, now_s)
            return Settlement(again=_without(ack.ranges, [seq for _, seq in keys]))
        self._start_anew(max((self._flights[key].order for key in keys), default=None), now_s)
        for key in keys:
            self.withdraw(key)
        if ack.status is AckStatus.REJECTED:
            return Settlement(rejected=tuple(keys), reason=ack.reason)
        return Settlement(delivered=tuple(keys))

    def heard(self) -> bool:
        """A broker handed an envelope on. No receipt; whether that is a reason to go on."""
        was, self._unheard = self._unheard, 0
        return was > 0

    def unheard(self, key: Key, now_s: float) -> None:
        """A broker had nobody to hand it on to, or did not take it."""
        self._again([key] if key in self._flights else [], now_s)
        if not self.quiet:
            self._quieten(now_s)

    def withdraw(self, key: Key) -> None:
        """Take an envelope out of the window."""
        if (flight := self._flights.pop(key, None)) is not None:
            self._bytes -= len(flight.parcel.data)

    def largest(self, size_bytes: int | None = None) -> Parcel | None:
        """The largest that waits for its ack, or the one of a size that the other side named."""
        sent = [one.parcel for one in self._flights.values() if one.sent_s is not None]
        named = [parcel for parcel in sent if len(parcel.data) == size_bytes]
        return max(named or sent, key=lambda parcel: len(parcel.data), default=None)

    def stalled(self, now_s: float) -> bool:
        """Whether something was sent, and for too long nothing at all has come back.

        That is how a client looks whose network thread has died, or whose window was lost with
        a cable that was pulled (eclipse-paho/paho.mqtt.python#24, #208). The patience doubles
        while it is of no use: a large envelope on a slow line would never arrive.
        """
        waiting = [one.sent_s for one in self._flights.values() if one.sent_s is not None]
        if not waiting:
            return False
        patience_s = self.policy.stalled_s * 2.0 ** min(self._stalls, _PATIENCE_DOUBLINGS)
        return now_s - max(min(waiting), self._heard_s) >= patience_s

    def connected(self, now_s: float) -> None:
        """A connection was made."""
        self.reconnect.connected(now_s)

    def left(self) -> None:
        """We ended the connection ourselves, to make another at once."""
        self._all_due()
        self.reconnect.left()

    def disconnected(
        self, now_s: float, *, at_least_s: float = 0.0, useless: bool = False
    ) -> float:
        """The connection is gone, or was not made: what is unacknowledged is due on the next one.

        Returns:
            Seconds to wait before the next connect, as :meth:`Reconnect.lost` says.
        """
        self._stalls += self.stalled(now_s)
        self._all_due()
        return self.reconnect.lost(now_s, at_least_s=at_least_s, useless=useless)

    def _has_room(self, size: int) -> bool:
        count, left = self.room
        return not self._flights or (count > 0 and size <= left)

    def _start_anew(self, order: int | None, now_s: float) -> None:
        """An ack came for what was sent as the ``order``-th: what was sent later is on its way."""
        if order is None:
            return
        for flight in self._flights.values():
            if flight.sent_s is not None and flight.order > order:
                flight.due_s = max(flight.due_s, now_s + self._resend_after(flight.tries))

    def _again(self, keys: Iterable[Key], due_s: float) -> None:
        for key in keys:
            self._flights[key].due_s, self._flights[key].sent_s = due_s, None

    def _all_due(self) -> None:
        for flight in self._flights.values():
            flight.due_s, flight.tries, flight.sent_s = 0.0, 0, None
        self._quiet_until_s = float("-inf")

    def _quieten(self, now_s: float) -> None:
        bound = min(self.policy.resend_s, self.policy.backoff_s * 2.0**self._unheard)
        self._unheard = min(self._unheard + 1, _DOUBLINGS)
        self._quiet_until_s = now_s + _half_sure(bound, self.jitter())

    def _resend_after(self, tries: int) -> float:
        doubled = self.policy.resend_s * 2.0 ** min(max(tries - 1, 0), _DOUBLINGS)
        return min(self.policy.resend_max_s, doubled) * (1.0 + 0.5 * self.jitter())


def _half_sure(bound_s: float, jitter: float) -> float:
    return bound_s * (0.5 + 0.5 * jitter)


def _covers(ack: Ack, key: Key) -> bool:
    epoch, seq = key
    return epoch == ack.epoch and any(first <= seq <= last for first, last in ack.ranges)


def _without(ranges: Ranges, seqs: Sequence[int]) -> Ranges:
    """The ranges less some numbers of theirs."""
    left: list[tuple[int, int]] = []
    taken = sorted(seqs)
    for first, last in ranges:
        start = first
        for seq in (one for one in taken if first <= one <= last):
            if seq > start:
                left.append((start, seq - 1))
            start = seq + 1
        if start <= last:
            left.append((start, last))
    return tuple(left)
