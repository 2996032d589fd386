"""Raw envelopes read once more: all of them, or those that an older version could not read."""

from __future__ import annotations

import zlib
from importlib import metadata
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, update

from edgesweep import envelope as envelopes
from edgesweep.v1 import records_pb2, transport_pb2

from .append import take
from .decoded import Opened, enter, opened
from .fleet import Fleet
from .gaps import Settled
from .rows import Received
from .schema import DECODED, DEVICES
from .statements import single

if TYPE_CHECKING:
    from sqlalchemy import Connection

_CHUNK = 500
_READER = "reader"

_ALL = """SELECT row_id, raw, received_ns, transport, decoded, effective_wall_ns, ready
    FROM envelopes WHERE row_id > {} ORDER BY row_id LIMIT {}"""
_UNREAD = """SELECT row_id, raw, received_ns, transport, decoded, effective_wall_ns, ready
    FROM envelopes WHERE row_id > {} AND NOT decoded ORDER BY row_id LIMIT {}"""
_READ = "UPDATE envelopes SET decoded = true, error = '' WHERE row_id = {}"
_UNREADABLE = "UPDATE envelopes SET decoded = false, error = {} WHERE row_id = {}"
_READY = "UPDATE envelopes SET ready = {} WHERE row_id = {}"
_NOTE = """INSERT INTO notes (name, note) VALUES ({}, {})
    ON CONFLICT (name) DO UPDATE SET note = excluded.note"""


def reader() -> str:
    """What reads envelopes: this version, and the messages that it knows."""
    known = records_pb2.DESCRIPTOR.serialized_pb + transport_pb2.DESCRIPTOR.serialized_pb
    return f"{metadata.version('edgesweep')} {zlib.crc32(known):08x}"


def knows_more(connection: Connection) -> bool:
    """Whether it was another version that last read the archive: this one may read more."""
    noted = single(connection, "SELECT note FROM notes WHERE name = {}", _READER)
    return not noted or noted[0][0] != reader()


def note_reader(connection: Connection) -> None:
    """Take note that this version has read what it can."""
    single(connection, _NOTE, _READER, reader())


def read_again(connection: Connection, after: int) -> int | None:
    """Read a chunk of what could not be read; from where to go on, ``None`` at the end.

    Times are fixed already, or wait for their own reasons; what is read now becomes ready now.
    """
    return _read(connection, _UNREAD, after)


def read_all(connection: Connection) -> None:
    """Empty the decoded tables and fill them again."""
    for table in DECODED:
        connection.execute(delete(table))
    nothing = dict.fromkeys(("device_row_id", "heartbeat_row_id", "telemetry_row_id"))
    connection.execute(update(DEVICES).values(**nothing))
    after: int | None = 0
    while after is not None:
        after = _read(connection, _ALL, after)


def _read(connection: Connection, query: str, after: int) -> int | None:
    rows = single(connection, query, after, _CHUNK)
    if not rows:
        return None
    group = [_opened(row) for row in rows]
    fleet = Fleet.load(connection, [one.received for one in group])
    settled = Settled()
    failed = enter(connection, group, fleet, settled)
    for row, one in zip(rows, group, strict=True):
        _note(connection, row, one.error or failed.get(row.row_id, ""))
    fleet.keep(connection)
    settled.keep(connection, group[-1].received.received_ns)
    last: int = rows[-1].row_id
    return last


def _opened(row: Any) -> Opened:
    raw = bytes(row.raw)
    envelope = envelopes.decode(raw)
    one = opened(Received(raw, envelope, row.received_ns, row.transport, is_live=False))
    one.row_id = row.row_id
    return one


def _note(connection: Connection, row: Any, error: str) -> None:
    if error:
        if row.decoded:
            single(connection, _UNREADABLE, error, row.row_id)
        return
    if not row.decoded:
        single(connection, _READ, row.row_id)
    if row.ready is None and row.effective_wall_ns is not None:
        single(connection, _READY, take(connection, 1), row.row_id)
