"""From raw envelopes to the decoded tables: what each kind of record becomes.

Each function gets a connection inside a transaction and never commits. A record that was archived
late never replaces one that was made later.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError, Message
from sqlalchemy import bindparam, insert, select, text, union_all, update
from sqlalchemy.exc import OperationalError, StatementError

from edgesweep import codec, events
from edgesweep.envelope import SCHEMA, WireError
from edgesweep.records import Birth, Event, Kind, LevelResult, Run
from edgesweep.run_json import level_object
from edgesweep.v1 import records_pb2 as pb

from .fleet import point
from .gaps import account
from .schema import ENVELOPES, EVENTS, LEVELS, RUNS
from .statements import many

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection, Table, TextClause

    from edgesweep.envelope import Envelope
    from edgesweep.records import Record

    from .fleet import Fleet
    from .gaps import Settled
    from .rows import Received

_MEASURED = "INSERT INTO telemetry (row_id, device_id, device_row_id) {rows}"
# Built once: building statements is most of the cost of a row.
_ORDER = select(ENVELOPES.c.epoch, ENVELOPES.c.seq).where(ENVELOPES.c.row_id == bindparam("row"))
_OWNER = union_all(
    *(select(t.c.device_id).where(t.c.run_id == bindparam("run")) for t in (RUNS, LEVELS))
).limit(1)

# Of these nothing is entered but where they are; their records are made when they are read.
_ONLY_PARSED: Mapping[Kind, type[Message]] = {
    Kind.HEARTBEAT: pb.Heartbeat,
    Kind.TELEMETRY: pb.Telemetry,
}
_ACCOUNTING = frozenset({events.RECORDS_DROPPED, events.RESEND_UNAVAILABLE})


@dataclass(slots=True)
class Opened:
    """An envelope with what is in it, as far as this version can read it.

    Attributes:
        record: ``None`` of a kind that is only pointed at, or where there is an error.
        error: Why it cannot be read; empty if it can.
        row_id: Its row, once it has one.
    """

    received: Received
    record: Record | None
    error: str
    row_id: int = 0


def opened(received: Received) -> Opened:
    """Decode an envelope's payload; nothing about it is ever an exception."""
    schema = received.envelope.schema
    if schema > SCHEMA:
        return Opened(received, None, f"schema {schema} is unknown to this version")
    try:
        return Opened(received, _record(received.envelope), "")
    except (WireError, ValueError, OverflowError) as error:
        return Opened(received, None, _plain(error))


def _record(envelope: Envelope) -> Record | None:
    message = _ONLY_PARSED.get(envelope.kind) if isinstance(envelope.kind, Kind) else None
    if message is not None:
        try:
            message.FromString(envelope.payload)
        except DecodeError as error:
            raise WireError(f"payload is not a {envelope.kind.value}: {error}") from error
        return None
    record = codec.decode(envelope.kind, envelope.payload)
    if isinstance(record, Birth | LevelResult | Run) and (
        record.device.device_id != envelope.device_id
    ):
        raise WireError(f"payload speaks for device {record.device.device_id!r}")
    return record


def enter(
    connection: Connection, group: Sequence[Opened], fleet: Fleet, settled: Settled
) -> dict[int, str]:
    """Enter archived envelopes in the decoded tables, in their order.

    Returns:
        By row, why an envelope that could be read is in none of them: it is here already in
        another envelope, or speaks of what is not its device's.
    """
    measured: list[tuple[int, str, int | None]] = []
    failed: dict[int, str] = {}
    for one in group:
        if one.error:
            fleet.device(one.received)
        elif one.record is None:
            _point_at(one, fleet, measured)
        elif (error := _entered(connection, one, fleet, settled)) is not None:
            failed[one.row_id] = error
    many(connection, _MEASURED, "iti", measured)
    return failed


def _point_at(one: Opened, fleet: Fleet, measured: list[tuple[int, str, int | None]]) -> None:
    envelope, device = one.received.envelope, fleet.device(one.received)
    if envelope.kind is Kind.HEARTBEAT:
        device.heartbeat = point(device.heartbeat, one.row_id, envelope)
        fleet.lived(one.received)
        return
    device.telemetry = point(device.telemetry, one.row_id, envelope)
    described = device.described
    measured.append((one.row_id, envelope.device_id, described.row_id if described else None))


def _entered(connection: Connection, one: Opened, fleet: Fleet, settled: Settled) -> str | None:
    """Why a record cannot be entered; ``None`` if it was, and half of it never."""
    try:
        with connection.begin_nested():
            _WRITERS[type(one.record)](connection, one, settled)
            offset_ns = _offset_ns(one.record)
    except OperationalError:
        raise  # the database, not this envelope
    except (WireError, ValueError, OverflowError, StatementError) as error:
        return _plain(error)
    device = fleet.device(one.received)
    if isinstance(one.record, Event):
        if offset_ns is not None:
            fleet.clock_set(one.received, offset_ns)
        return None
    device.described = point(device.described, one.row_id, one.received.envelope)
    if isinstance(one.record, Birth):
        fleet.lived(one.received, one.record.connection)
    return None


def _offset_ns(record: Record | None) -> int | None:
    if isinstance(record, Event) and record.name == events.CLOCK_SET:
        return events.clock_offset_ns(record)
    return None


def _plain(error: Exception) -> str:
    """What went wrong, as a text that any database takes."""
    return str(error).replace("\0", "?")


def insert_if_new(connection: Connection, table: Table, values: Mapping[str, object]) -> int | None:
    """Insert a row unless a unique key of the table is taken; its ``row_id``, or ``None``."""
    row_id: int | None = connection.scalar(_insert_if_new(table), values)
    return row_id


@cache
def _insert_if_new(table: Table) -> TextClause:
    # SQLite and PostgreSQL share this form; SQLAlchemy has it per dialect, and does not cache it.
    names = [column.name for column in table.c if column is not table.autoincrement_column]
    columns, values = ", ".join(names), ", ".join(f":{name}" for name in names)
    return text(
        f"INSERT INTO {table.name} ({columns}) VALUES ({values})"  # noqa: S608 -- names of ours
        " ON CONFLICT DO NOTHING RETURNING row_id"
    )


def _write_birth(_connection: Connection, _one: Opened, _settled: Settled) -> None:
    """Nothing: it describes its device, which points at it."""


def _write_event(connection: Connection, one: Opened, settled: Settled) -> None:
    event, device_id = one.record, one.received.envelope.device_id
    assert isinstance(event, Event)  # noqa: S101 -- by _WRITERS
    connection.execute(
        insert(EVENTS).values(
            row_id=one.row_id,
            device_id=device_id,
            name=event.name,
            message=event.message,
            attributes_json=json.dumps(dict(event.attributes), sort_keys=True),
        )
    )
    if event.name in _ACCOUNTING:
        account(connection, one.row_id, device_id, event, settled)


def _write_level(connection: Connection, one: Opened, _settled: Settled) -> None:
    level = one.record
    assert isinstance(level, LevelResult)  # noqa: S101 -- by _WRITERS
    _refuse_foreign(connection, level.run_id, one.received.envelope.device_id)
    # A level that was submitted twice in two envelopes counts once, and the first stands: its
    # points may have been projected already, and a point is never changed in place.
    if insert_if_new(connection, LEVELS, _level_row(one.row_id, level)) is None:
        raise WireError("this level of this run is archived already, from another envelope")


def _level_row(row_id: int, level: LevelResult) -> dict[str, object]:
    return {
        "row_id": row_id,
        "run_id": level.run_id,
        "contender_id": level.contender.id,
        "session": level.session,
        "workload": level.workload.name,
        "concurrency": level.concurrency,
        "attempt": level.attempt,
        "device_id": level.device.device_id,
        "hardware_class": level.device.hardware_class,
        "performance_state": level.device.performance_state,
        "status": level.status.value,
        "level_json": json.dumps(level_object(level), allow_nan=False),
    }


def _write_run(connection: Connection, one: Opened, _settled: Settled) -> None:
    run, envelope = one.record, one.received.envelope
    assert isinstance(run, Run)  # noqa: S101 -- by _WRITERS
    _refuse_foreign(connection, run.run_id, envelope.device_id)
    snapshot: dict[str, Any] = {
        "row_id": one.row_id,
        "device_id": envelope.device_id,
        "state": run.state.value,
        "reason": run.reason,
        "started_wall_ns": run.started_wall_ns,
        "ended_wall_ns": run.ended_wall_ns,
        "n_levels": run.n_levels,
    }
    held = connection.execute(select(RUNS).where(RUNS.c.run_id == run.run_id)).one_or_none()
    if held is None:
        connection.execute(insert(RUNS).values(run_id=run.run_id, **snapshot))
    elif _supersedes(connection, envelope, run, held):
        connection.execute(update(RUNS).where(RUNS.c.run_id == run.run_id).values(**snapshot))


def _supersedes(connection: Connection, envelope: Envelope, run: Run, held: Any) -> bool:
    """Whether a snapshot is newer than the one held.

    Within one spool the sequence says so. Across two (the first was set aside as corrupt) an
    ended run is newer than a running one, and more levels are newer than fewer.
    """
    order = _order(connection, held.row_id)
    if order[0] == envelope.epoch:
        return envelope.seq > order[1]
    new = (run.ended_wall_ns or -1, run.n_levels)
    return new >= (held.ended_wall_ns or -1, held.n_levels)


def _order(connection: Connection, row_id: int) -> tuple[int, int]:
    row = connection.execute(_ORDER, {"row": row_id}).one()
    return row.epoch, row.seq


def _refuse_foreign(connection: Connection, run_id: str, device_id: str) -> None:
    """Keep one device from adding to, or ending, the run of another."""
    owner = connection.scalar(_OWNER, {"run": run_id})
    if owner is not None and owner != device_id:
        raise WireError(f"run {run_id} belongs to device {owner}")


_WRITERS: Mapping[type, Callable[[Connection, Opened, Settled], None]] = {
    Birth: _write_birth,
    Event: _write_event,
    LevelResult: _write_level,
    Run: _write_run,
}
