"""How a group of envelopes becomes rows: one transaction of a few statements, whatever its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_collector.core.clock import Fixed, on_arrival

from .decoded import Opened, enter, opened
from .fleet import Fleet, boot_key
from .gaps import Settled
from .rows import Kept
from .statements import many, single

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from .rows import Received

_INSERT = """INSERT INTO envelopes (device_id, epoch, seq, kind, received_ns, transport, decoded,
        error, raw, effective_wall_ns, time_source, clock, ready)
    {rows} ON CONFLICT DO NOTHING RETURNING row_id, device_id, epoch, seq"""
_HELD = """SELECT device_id, epoch, seq, raw FROM envelopes
    WHERE (device_id, epoch, seq) IN ({rows})"""
_WAIT = """INSERT INTO waiting (row_id, device_id, boot_id, mono_ns, received_ns)
    {rows} ON CONFLICT DO NOTHING"""
_FAILED = "UPDATE envelopes SET decoded = false, error = {}, ready = NULL WHERE row_id = {}"
_TAKE = "UPDATE sequences SET last = last + {} WHERE name = 'ready' RETURNING last"

Key = tuple[str, int, int]
"""(device id, epoch, sequence number)."""


@dataclass(slots=True)
class Appended:
    """What became of each envelope, and the devices that were found to be two machines."""

    kept: list[Kept]
    shared: list[str]


def open_all(batch: Sequence[Received]) -> list[Opened]:
    """Decode a batch, before the archive is kept from others for it."""
    return [opened(received) for received in batch]


def append(connection: Connection, batch: Sequence[Opened], now_ns: int) -> Appended:
    """Store a batch, and what follows from it.

    Args:
        connection: Within a transaction that holds the write lock.
        batch: As :func:`open_all` made it.
        now_ns: When it came: since then gaps that it opens are known.
    """
    first = _first_of_each(batch)
    fleet = Fleet.load(connection, [one.received for one in batch])
    for one in first.values():
        fleet.heard(one.received)
    new = _inserted(connection, first, fleet)
    settled = Settled()
    for one in new.values():
        settled.archived(one.received.envelope)
    failed = enter(connection, list(new.values()), fleet, settled)
    for row_id, error in failed.items():
        single(connection, _FAILED, error, row_id)
    fleet.keep(connection)
    settled.keep(connection, now_ns)
    return Appended(_kept(connection, batch, first, new), fleet.shared)


def take(connection: Connection, count: int) -> int:
    """Reserve places in the order that cursors count; the first of them.

    The write lock is held, so that they are seen in their order.
    """
    last: int = single(connection, _TAKE, count)[0][0]
    return last - count + 1


def _first_of_each(batch: Iterable[Opened]) -> dict[Key, Opened]:
    first: dict[Key, Opened] = {}
    for one in batch:
        first.setdefault(_key(one), one)
    return first


def _inserted(connection: Connection, first: dict[Key, Opened], fleet: Fleet) -> dict[Key, Opened]:
    """Those that were not here, each with its row; in their order."""
    place = take(connection, len(first))
    rows, waiting = [], []
    for ready, (key, one) in enumerate(first.items(), start=place):
        received = one.received
        fixed = received.fixed or on_arrival(
            received.envelope, received.received_ns, fleet.clock(received.envelope)
        )
        rows.append(_row(one, fixed, ready))
        if fixed is None:
            waiting.append(key)
    returned = many(connection, _INSERT, "tiititbtyitti", rows)
    row_ids = {(device_id, epoch, seq): row_id for row_id, device_id, epoch, seq in returned}
    new = {key: one for key, one in first.items() if key in row_ids}
    for key, one in new.items():
        one.row_id = row_ids[key]
    many(connection, _WAIT, "ittii", [_wait_row(new[key]) for key in waiting if key in new])
    return new


def _row(one: Opened, fixed: Fixed | None, ready: int) -> tuple[object, ...]:
    received, envelope = one.received, one.received.envelope
    return (
        envelope.device_id,
        envelope.epoch,
        envelope.seq,
        envelope.kind.value,
        received.received_ns,
        received.transport,
        not one.error,
        one.error,
        received.raw,
        fixed and fixed.wall_ns,
        fixed and fixed.source.value,
        envelope.clock.value,
        ready if fixed is not None and not one.error else None,
    )


def _wait_row(one: Opened) -> tuple[object, ...]:
    envelope = one.received.envelope
    return (one.row_id, *boot_key(envelope), envelope.mono_ns, one.received.received_ns)


def _kept(
    connection: Connection,
    batch: Sequence[Opened],
    first: dict[Key, Opened],
    new: dict[Key, Opened],
) -> list[Kept]:
    """Whether what is held is the same: a spool restored from a copy counts once more."""
    old = [key for key in first if key not in new]
    held = {(row[0], row[1], row[2]): bytes(row[3]) for row in many(connection, _HELD, "tii", old)}
    held |= {key: one.received.raw for key, one in new.items()}
    kept = []
    for one in batch:
        key = _key(one)
        if new.get(key) is one:
            kept.append(Kept.STORED)
        else:
            same = held[key] == one.received.raw
            kept.append(Kept.DUPLICATE if same else Kept.CONFLICT)
    return kept


def _key(one: Opened) -> Key:
    envelope = one.received.envelope
    return envelope.device_id, envelope.epoch, envelope.seq
