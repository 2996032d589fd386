"""Sequence numbers in the archive: which are settled, which are missing, which were asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from edgesweep import events
from edgesweep.envelope import WireError, to_ranges
from edgesweep_collector.core.gaps import Span, merge, missing, to_ask

from .rows import Ask, EpochGaps
from .statements import many, single

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sqlalchemy import Connection

    from edgesweep.envelope import Envelope
    from edgesweep.events import Dropped, Ranges
    from edgesweep.records import Event

UNAVAILABLE = "unavailable"
"""The reason of numbers that a device was asked for and does not have any more."""

ASK_AFTER_NS = 120 * 10**9
"""What is missing for less is likely on its way."""
ASK_AGAIN_NS = 600 * 10**9
_ASK_RANGES = 64
_MAX_63_BIT = 2**63 - 1

Spool = tuple[str, int]
"""(device id, epoch)."""

# From the last span that begins before what is new to the first that begins after it.
_NEAR = """WITH fresh (device_id, epoch, lo, hi) AS ({rows})
    SELECT r.device_id, r.epoch, r.first_seq, r.last_seq, r.since_ns FROM fresh JOIN ranges r
    ON r.device_id = fresh.device_id AND r.epoch = fresh.epoch
    AND r.first_seq >= coalesce((SELECT max(p.first_seq) FROM ranges p
        WHERE p.device_id = fresh.device_id AND p.epoch = fresh.epoch AND p.first_seq <= fresh.lo),
        fresh.lo)
    AND r.first_seq <= coalesce((SELECT min(p.first_seq) FROM ranges p
        WHERE p.device_id = fresh.device_id AND p.epoch = fresh.epoch AND p.first_seq > fresh.hi),
        fresh.hi)
    ORDER BY r.first_seq"""
_WRITE = """INSERT INTO ranges (device_id, epoch, first_seq, last_seq, since_ns) {rows}
    ON CONFLICT (device_id, epoch, first_seq) DO UPDATE SET last_seq = excluded.last_seq,
        since_ns = excluded.since_ns"""
_DELETE = "DELETE FROM ranges WHERE (device_id, epoch, first_seq) IN ({rows})"
_ACCOUNT = """INSERT INTO accounted (row_id, part, device_id, epoch, first_seq, last_seq, n, reason)
    {rows} ON CONFLICT DO NOTHING"""
# Each span that something is missing below, and the one before it.
_ABOVE = """SELECT r.device_id, r.epoch, r.first_seq, r.since_ns,
        coalesce((SELECT p.last_seq FROM ranges p WHERE p.device_id = r.device_id
            AND p.epoch = r.epoch AND p.first_seq < r.first_seq
            ORDER BY p.first_seq DESC LIMIT 1), 0)
    FROM ranges r WHERE r.first_seq > 1 ORDER BY r.device_id, r.epoch, r.first_seq"""
_RECONCILED = "SELECT device_id, epoch, reason, n FROM accounted"
_ASKED = "SELECT device_id, epoch, first_seq, last_seq FROM asked WHERE asked_ns > {}"
_ASK = """INSERT INTO asked (device_id, epoch, first_seq, last_seq, asked_ns) {rows}
    ON CONFLICT (device_id, epoch, first_seq, last_seq)
    DO UPDATE SET asked_ns = excluded.asked_ns"""


class Settled:
    """Numbers that a group of envelopes settles: theirs, and those that they account for."""

    def __init__(self) -> None:
        self._seqs: dict[Spool, list[int]] = defaultdict(list)
        self._ranges: dict[Spool, list[tuple[int, int]]] = defaultdict(list)

    def archived(self, envelope: Envelope) -> None:
        """An envelope is here."""
        self._seqs[envelope.device_id, envelope.epoch].append(envelope.seq)

    def told(self, device_id: str, epoch: int, ranges: Ranges) -> None:
        """These never will be, or were here once."""
        self._ranges[device_id, epoch] += ranges

    def keep(self, connection: Connection, now_ns: int) -> None:
        """Write it all."""
        new = {spool: list(ranges) for spool, ranges in self._ranges.items() if ranges}
        for spool, seqs in self._seqs.items():
            new.setdefault(spool, []).extend(to_ranges(seqs))
        written, deleted = [], []
        near = _near(connection, new)
        for spool, ranges in new.items():
            merged = merge(near[spool], ranges, now_ns)
            written += [(*spool, one.first, one.last, one.since_ns) for one in merged.written]
            deleted += [(*spool, first) for first in merged.deleted]
        many(connection, _DELETE, "tii", deleted)
        many(connection, _WRITE, "tiiii", written)


def _near(
    connection: Connection, new: Mapping[Spool, Collection[tuple[int, int]]]
) -> dict[Spool, list[Span]]:
    reaches = [
        (*spool, min(first for first, _ in ranges), max(last for _, last in ranges))
        for spool, ranges in new.items()
    ]
    near: dict[Spool, list[Span]] = defaultdict(list)
    for device_id, epoch, first, last, since_ns in many(connection, _NEAR, "tiii", reaches):
        near[device_id, epoch].append(Span(first, last, since_ns))
    return near


def account(
    connection: Connection, row_id: int, device_id: str, event: Event, settled: Settled
) -> None:
    """Take note of what an event tells of records that will never come.

    Raises:
        WireError: it tells nothing of the kind.
    """
    dropped = events.dropped_records(event)
    if not 0 <= dropped.epoch <= _MAX_63_BIT:
        raise WireError(f"event {event.name}: epoch {dropped.epoch} has more than 63 bits")
    is_answer = event.name == events.RESEND_UNAVAILABLE
    reason = UNAVAILABLE if is_answer else dropped.reason or "unknown"
    rows = [
        (row_id, part, device_id, dropped.epoch, first, last, n, reason)
        for part, (first, last, n) in enumerate(_parts(dropped))
    ]
    many(connection, _ACCOUNT, "iitiiiit", rows)
    settled.told(device_id, dropped.epoch, dropped.ranges)


def _parts(dropped: Dropped) -> Iterable[tuple[int | None, int | None, int]]:
    if dropped.ranges:
        return ((first, last, last - first + 1) for first, last in dropped.ranges)
    # They were dropped before they had numbers, and leave no gap.
    return [(None, None, min(sum(dropped.by_kind.values()), _MAX_63_BIT))]


def gaps(connection: Connection) -> list[EpochGaps]:
    """Every spool of which something is missing, or was accounted for."""
    found: dict[Spool, list[Span]] = defaultdict(list)
    for device_id, epoch, first, since_ns, below in single(connection, _ABOVE):
        found[device_id, epoch] += _below(below, first, since_ns)
    # Added up here, since a device may tell of so many that SQLite's sum overflows.
    reconciled: dict[Spool, Counter[str]] = defaultdict(Counter)
    for device_id, epoch, reason, n in single(connection, _RECONCILED):
        reconciled[device_id, epoch][reason] += n
    return [
        EpochGaps(*spool, tuple(found.get(spool, ())), dict(reconciled[spool]))
        for spool in sorted(found.keys() | reconciled.keys())
        if found.get(spool) or spool in reconciled
    ]


def _below(below: int, first: int, since_ns: int) -> tuple[Span, ...]:
    settled = [Span(first, first, since_ns)]
    return missing([Span(1, below, 0), *settled] if below else settled)


def missing_by_device(connection: Connection) -> dict[str, int]:
    """How many records of each device never came, and were not accounted for."""
    counts: dict[str, int] = defaultdict(int)
    for device_id, _, first, since_ns, below in single(connection, _ABOVE):
        counts[device_id] += sum(span.n for span in _below(below, first, since_ns))
    return {device_id: n for device_id, n in counts.items() if n}


def asks(connection: Connection, device_ids: Collection[str], now_ns: int) -> list[Ask]:
    """What these devices are to be asked for now: missing for a while, and not asked lately."""
    late: dict[Spool, list[Span]] = defaultdict(list)
    for device_id, epoch, first, since_ns, below in single(connection, _ABOVE):
        if device_id in device_ids and since_ns <= now_ns - ASK_AFTER_NS:
            late[device_id, epoch] += _below(below, first, since_ns)
    if not late:
        return []
    lately: dict[Spool, list[tuple[int, int]]] = defaultdict(list)
    for device_id, epoch, first, last in single(connection, _ASKED, now_ns - ASK_AGAIN_NS):
        lately[device_id, epoch].append((first, last))
    found = [
        Ask(*spool, to_ask(spans, lately[spool], _ASK_RANGES)) for spool, spans in late.items()
    ]
    return [ask for ask in found if ask.ranges]


def note_asked(connection: Connection, found: Iterable[Ask], now_ns: int) -> None:
    """Take note that this was asked for, and forget what was asked long ago."""
    single(connection, "DELETE FROM asked WHERE asked_ns <= {}", now_ns - ASK_AGAIN_NS)
    rows: list[tuple[Any, ...]] = [
        (ask.device_id, ask.epoch, *pair, now_ns) for ask in found for pair in ask.ranges
    ]
    many(connection, _ASK, "tiiii", rows)
