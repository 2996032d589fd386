"""What is read from the archive; each function gets a connection inside a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from edgesweep import codec
from edgesweep import envelope as envelopes
from edgesweep.records import Birth, Heartbeat, LevelResult, Run, RunState, Telemetry

from .rows import ArchivedLevel, ArchivedTelemetry, DeadLetter, DeviceRow, RunRow
from .schema import CURSORS, DEAD_LETTERS, DEVICES, ENVELOPES, LEVELS, RUNS, TELEMETRY

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from edgesweep.envelope import Envelope
    from edgesweep.records import Device, Record


def levels_after(connection: Connection, row_id: int, limit: int) -> list[ArchivedLevel]:
    """Up to ``limit`` levels of envelopes above ``row_id``, ascending."""
    query = _levels().where(LEVELS.c.row_id > row_id).limit(limit)
    return [_archived_level(row) for row in connection.execute(query)]


def levels(connection: Connection, run_id: str) -> list[ArchivedLevel]:
    """Every level of a run, in the order of arrival."""
    query = _levels().where(LEVELS.c.run_id == run_id)
    return [_archived_level(row) for row in connection.execute(query)]


def telemetry_after(connection: Connection, row_id: int, limit: int) -> list[ArchivedTelemetry]:
    """Up to ``limit`` telemetry records of envelopes above ``row_id``, ascending."""
    query = (
        select(TELEMETRY, ENVELOPES.c.effective_wall_ns, ENVELOPES.c.raw)
        .join(ENVELOPES, ENVELOPES.c.row_id == TELEMETRY.c.row_id)
        .where(TELEMETRY.c.row_id > row_id)
        .order_by(TELEMETRY.c.row_id)
        .limit(limit)
    )
    # Devices describe themselves seldom: many rows share one description.
    told: dict[int | None, Device | None] = {}
    found = []
    for row in connection.execute(query).all():
        if row.device_row_id not in told:
            told[row.device_row_id] = _described(_record(connection, row.device_row_id)[1])
        found.append(_archived_telemetry(row, told[row.device_row_id]))
    return found


def sensors_up(connection: Connection, since_ns: int) -> dict[str, dict[str, bool]]:
    """By device and sensor: whether it had a value, by the last heartbeat since ``since_ns``."""
    query = (
        select(ENVELOPES.c.device_id, ENVELOPES.c.raw)
        .join(DEVICES, DEVICES.c.heartbeat_row_id == ENVELOPES.c.row_id)
        .where(ENVELOPES.c.received_ns >= since_ns)
    )
    records = ((row.device_id, _decoded(row.raw)[1]) for row in connection.execute(query))
    return {
        device_id: dict(record.sensor_up)
        for device_id, record in records
        if isinstance(record, Heartbeat)
    }


def runs(connection: Connection, device_id: str | None, limit: int) -> list[RunRow]:
    """The newest ``limit`` runs by their start, of one device or of all."""
    archived = select(func.count()).where(LEVELS.c.run_id == RUNS.c.run_id).scalar_subquery()
    query = select(RUNS, archived.label("n_archived"))
    if device_id is not None:
        query = query.where(RUNS.c.device_id == device_id)
    query = query.order_by(RUNS.c.started_wall_ns.desc(), RUNS.c.row_id.desc()).limit(limit)
    return [
        RunRow(
            run_id=row.run_id,
            device_id=row.device_id,
            state=RunState(row.state),
            reason=row.reason,
            started_wall_ns=row.started_wall_ns,
            ended_wall_ns=row.ended_wall_ns,
            n_archived=row.n_archived,
        )
        for row in connection.execute(query)
    ]


def run(connection: Connection, run_id: str) -> Run | None:
    """The newest snapshot of a run; ``None`` for a run that is not known."""
    row_id = connection.scalar(select(RUNS.c.row_id).where(RUNS.c.run_id == run_id))
    record = _record(connection, row_id)[1]
    return record if isinstance(record, Run) else None


def devices(connection: Connection) -> list[DeviceRow]:
    """Every device that was heard, by its id."""
    query = select(DEVICES).order_by(DEVICES.c.device_id)
    return [_device_row(connection, row) for row in connection.execute(query).all()]


def cursor(connection: Connection, name: str) -> int:
    """The last row that a projection has dealt with; 0 before its first."""
    return connection.scalar(select(CURSORS.c.row_id).where(CURSORS.c.name == name)) or 0


def dead_letters(connection: Connection, projection: str) -> list[DeadLetter]:
    """What a projection's target refused, oldest first."""
    query = select(DEAD_LETTERS).where(DEAD_LETTERS.c.projection == projection)
    return [
        DeadLetter(row_id=row.row_id, line=row.line, error=row.error, at_ns=row.at_ns)
        for row in connection.execute(query.order_by(DEAD_LETTERS.c.letter_id))
    ]


def counts_by_kind(connection: Connection) -> dict[str, int]:
    """Archived envelopes by kind, decoded or not."""
    query = select(ENVELOPES.c.kind, func.count().label("n")).group_by(ENVELOPES.c.kind)
    return {row.kind: row.n for row in connection.execute(query)}


def _levels() -> Any:
    columns = select(ENVELOPES.c.row_id, ENVELOPES.c.effective_wall_ns, ENVELOPES.c.raw)
    joined = columns.join(LEVELS, LEVELS.c.row_id == ENVELOPES.c.row_id)
    return joined.order_by(LEVELS.c.row_id)


def _archived_level(row: Any) -> ArchivedLevel:
    envelope, level = _decoded(row.raw)
    if not isinstance(level, LevelResult):
        raise TypeError(f"row {row.row_id} of levels is a {envelope.kind.value}")
    return ArchivedLevel(row.row_id, row.effective_wall_ns, level)


def _archived_telemetry(row: Any, device: Device | None) -> ArchivedTelemetry:
    envelope, telemetry = _decoded(row.raw)
    if not isinstance(telemetry, Telemetry):
        raise TypeError(f"row {row.row_id} of telemetry is a {envelope.kind.value}")
    return ArchivedTelemetry(row.row_id, row.effective_wall_ns, row.device_id, device, telemetry)


def _device_row(connection: Connection, row: Any) -> DeviceRow:
    envelope, told = _record(connection, row.device_row_id)
    heartbeat = _record(connection, row.heartbeat_row_id)[1]
    telemetry = _record(connection, row.telemetry_row_id)[1]
    measured = select(ENVELOPES.c.effective_wall_ns).where(
        ENVELOPES.c.row_id == row.telemetry_row_id
    )
    return DeviceRow(
        device_id=row.device_id,
        first_seen_ns=row.first_seen_ns,
        last_seen_ns=row.last_seen_ns,
        agent_version=envelope.agent_version if envelope else "",
        device=_described(told),
        heartbeat=heartbeat if isinstance(heartbeat, Heartbeat) else None,
        telemetry=telemetry if isinstance(telemetry, Telemetry) else None,
        telemetry_ns=connection.scalar(measured),
    )


def _described(record: Record | None) -> Device | None:
    return record.device if isinstance(record, Birth | LevelResult | Run) else None


def _decoded(raw: bytes) -> tuple[Envelope, Record]:
    envelope = envelopes.decode(raw)
    return envelope, codec.decode(envelope.kind, envelope.payload)


def _record(connection: Connection, row_id: int | None) -> tuple[Envelope | None, Record | None]:
    """The envelope of a row and its record; two times ``None`` for no row."""
    if row_id is None:
        return None, None
    query = select(ENVELOPES.c.raw).where(ENVELOPES.c.row_id == row_id)
    return _decoded(connection.execute(query).scalar_one())
