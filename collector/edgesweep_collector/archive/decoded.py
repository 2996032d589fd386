"""From raw envelopes to the decoded tables: one function per record.

Each gets a connection inside a transaction and never commits. A record that was archived late
never replaces one that was made later.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, insert, select, text, union_all, update

from edgesweep import codec
from edgesweep.envelope import WireError
from edgesweep.records import Birth, Event, Heartbeat, LevelResult, Record, Run, Telemetry
from edgesweep.run_json import level_object

from .schema import DEVICES, ENVELOPES, EVENTS, LEVELS, RUNS, TELEMETRY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection, Table, TextClause

    from edgesweep.envelope import Envelope

    from .rows import Received

# Statements are built once: building them is most of the cost of a row.
_HEARD = update(DEVICES).where(DEVICES.c.device_id == bindparam("mine"))
_HEARD_AT = _HEARD.values(last_seen_ns=bindparam("now"))
_FIRST_HEARD = insert(DEVICES)
_POINTED_AT = {
    column: select(DEVICES.c[column]).where(DEVICES.c.device_id == bindparam("mine"))
    for column in ("device_row_id", "heartbeat_row_id", "telemetry_row_id")
}
_POINT_AT = {column: _HEARD.values({column: bindparam("at")}) for column in _POINTED_AT}
_MEASURED = insert(TELEMETRY)
_ORDER = select(ENVELOPES.c.epoch, ENVELOPES.c.seq).where(ENVELOPES.c.row_id == bindparam("row"))
_OWNER = union_all(
    *(select(t.c.device_id).where(t.c.run_id == bindparam("run")) for t in (RUNS, LEVELS))
).limit(1)


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


def see(connection: Connection, device_id: str, received_ns: int) -> None:
    """Note that a device was heard."""
    heard = connection.execute(_HEARD_AT, {"mine": device_id, "now": received_ns})
    if heard.rowcount == 0:
        first = {"device_id": device_id, "first_seen_ns": received_ns, "last_seen_ns": received_ns}
        connection.execute(_FIRST_HEARD, first)


def decode_into_tables(connection: Connection, row_id: int, received: Received) -> None:
    """Decode an archived envelope and enter it in the table of its kind.

    Raises:
        WireError: the payload is no such record, or speaks for another device.
    """
    envelope = received.envelope
    record = codec.decode(envelope.kind, envelope.payload)
    if isinstance(record, Birth | LevelResult | Run) and (
        record.device.device_id != envelope.device_id
    ):
        raise WireError(f"payload speaks for device {record.device.device_id!r}")
    _WRITERS[type(record)](connection, row_id, envelope, record)


def _write_birth(connection: Connection, row_id: int, envelope: Envelope, _: Birth) -> None:
    _describe(connection, row_id, envelope)


def _write_event(connection: Connection, row_id: int, envelope: Envelope, event: Event) -> None:
    connection.execute(
        insert(EVENTS).values(
            row_id=row_id,
            device_id=envelope.device_id,
            name=event.name,
            message=event.message,
            attributes_json=json.dumps(dict(event.attributes), sort_keys=True),
        )
    )


def _write_heartbeat(connection: Connection, row_id: int, envelope: Envelope, _: Heartbeat) -> None:
    _point_at(connection, "heartbeat_row_id", row_id, envelope)


def _write_telemetry(connection: Connection, row_id: int, envelope: Envelope, _: Telemetry) -> None:
    _point_at(connection, "telemetry_row_id", row_id, envelope)
    described = connection.scalar(_POINTED_AT["device_row_id"], {"mine": envelope.device_id})
    row = {"row_id": row_id, "device_id": envelope.device_id, "device_row_id": described}
    connection.execute(_MEASURED, row)


def _write_level(
    connection: Connection, row_id: int, envelope: Envelope, level: LevelResult
) -> None:
    _refuse_foreign(connection, level.run_id, envelope.device_id)
    _describe(connection, row_id, envelope)
    # A level that was submitted twice in two envelopes counts once, and the first stands: its
    # points may have been projected already, and a point is never changed in place.
    if insert_if_new(connection, LEVELS, _level_row(row_id, level)) is None:
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


def _write_run(connection: Connection, row_id: int, envelope: Envelope, run: Run) -> None:
    _refuse_foreign(connection, run.run_id, envelope.device_id)
    _describe(connection, row_id, envelope)
    snapshot: dict[str, Any] = {
        "row_id": row_id,
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


def _describe(connection: Connection, row_id: int, envelope: Envelope) -> None:
    _point_at(connection, "device_row_id", row_id, envelope)


def _point_at(connection: Connection, column: str, row_id: int, envelope: Envelope) -> None:
    """Let a device's row point at this envelope, unless it points at a later one."""
    held = connection.scalar(_POINTED_AT[column], {"mine": envelope.device_id})
    if held is not None:
        epoch, seq = _order(connection, held)
        if epoch == envelope.epoch and seq > envelope.seq:
            return
    connection.execute(_POINT_AT[column], {"mine": envelope.device_id, "at": row_id})


def _refuse_foreign(connection: Connection, run_id: str, device_id: str) -> None:
    """Keep one device from adding to, or ending, the run of another."""
    owner = connection.scalar(_OWNER, {"run": run_id})
    if owner is not None and owner != device_id:
        raise WireError(f"run {run_id} belongs to device {owner}")


_WRITERS: Mapping[type[Record], Callable[..., None]] = {
    Birth: _write_birth,
    Event: _write_event,
    Heartbeat: _write_heartbeat,
    LevelResult: _write_level,
    Run: _write_run,
    Telemetry: _write_telemetry,
}
