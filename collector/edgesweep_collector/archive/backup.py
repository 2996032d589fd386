"""A whole archive as a file of envelopes (:mod:`edgesweep.carried`), and what else is in it.

Beside the envelopes it has, for each spool of a device, an envelope of the transport ``archive``
that is none of the device's: an event that tells which numbers the archive has had, also of what
retention has removed since, so that a restored archive asks no device for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep import codec, events
from edgesweep import envelope as envelopes
from edgesweep.carried import Carried
from edgesweep.envelope import Envelope, WireError
from edgesweep.records import ClockQuality, Event
from edgesweep_collector.core.gaps import FIRST_SEQ

from .statements import single

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from edgesweep.events import Ranges

TRANSPORT = "archive"
CHUNK = 200
_HAD = "archive_had"
_RANGES_AN_EVENT = 2000

_AFTER = """SELECT row_id, raw, received_ns, transport, effective_wall_ns, time_source
    FROM envelopes WHERE row_id > {} AND row_id <= {} ORDER BY row_id LIMIT {}"""
_TOP = "SELECT coalesce(max(row_id), 0) FROM envelopes"
_RANGES = """SELECT device_id, epoch, first_seq, last_seq FROM ranges
    ORDER BY device_id, epoch, first_seq"""


def top(connection: Connection) -> int:
    """The last row, up to which a backup that begins now goes."""
    found: int = single(connection, _TOP)[0][0]
    return found


def chunk(connection: Connection, after: int, until: int) -> tuple[int, list[Carried]]:
    """The next envelopes, and the row of the last of them."""
    rows = single(connection, _AFTER, after, until, CHUNK)
    carried = [
        Carried(
            bytes(row.raw),
            row.received_ns,
            row.transport,
            row.effective_wall_ns,
            row.time_source or "",
        )
        for row in rows
    ]
    return (rows[-1].row_id if rows else until), carried


def had(connection: Connection) -> list[Carried]:
    """Which numbers the archive has had."""
    spools: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for device_id, epoch, first, last in single(connection, _RANGES):
        if last >= FIRST_SEQ:
            spools.setdefault((device_id, epoch), []).append((max(first, FIRST_SEQ), last))
    return [
        _told(*spool, tuple(ranges[start : start + _RANGES_AN_EVENT]))
        for spool, ranges in spools.items()
        for start in range(0, len(ranges), _RANGES_AN_EVENT)
    ]


def had_ranges(envelope: Envelope) -> Ranges:
    """The numbers of the envelope's device and epoch that another archive has had.

    Raises:
        WireError: it does not tell them.
    """
    event = codec.decode(envelope.kind, envelope.payload)
    if not isinstance(event, Event) or event.name != _HAD:
        raise WireError("it does not tell what another archive has had")
    return events.dropped_records(event).ranges


def _told(device_id: str, epoch: int, ranges: Ranges) -> Carried:
    event = Event(_HAD, "", {"epoch": f"{epoch:016x}", "ranges": events.ranges_text(ranges)})
    kind, payload = codec.encode(event)
    made = Envelope(device_id, epoch, 0, "", "", kind, 0, 0, ClockQuality.UNSYNCED, payload)
    return Carried(envelopes.encode(made), None, TRANSPORT)
