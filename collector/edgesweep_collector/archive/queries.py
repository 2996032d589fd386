"""What is read from the archive; each function gets a connection inside a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from edgesweep import codec
from edgesweep import envelope as envelopes
from edgesweep.records import Birth, Heartbeat, Kind, LevelResult, Run, RunState, Telemetry
from edgesweep_collector.core.clock import AHEAD_NS

from .rows import (
    ArchivedLevel,
    ArchivedTelemetry,
    Backlog,
    DeadLetter,
    DeviceRow,
    HeartbeatRow,
    RunRow,
)
from .schema import CURSORS, DEAD_LETTERS, DEVICES, ENVELOPES, LEVELS, RUNS, SEQUENCES, TELEMETRY

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from edgesweep.envelope import Envelope
    from edgesweep.records import Device, Record


def levels_after(connection: Connection, cursor: int, limit: int) -> list[ArchivedLevel]:
    """Up to ``limit`` levels above a cursor, ascending."""
    query = _levels().where(*_ready(Kind.LEVEL, cursor)).order_by(ENVELOPES.c.ready).limit(limit)
    return [_archived_level(row) for row in connection.execute(query)]


def levels(connection: Connection, run_id: str) -> list[ArchivedLevel]:
    """Every level of a run, in the order of arrival."""
    query = _levels().where(LEVELS.c.run_id == run_id).order_by(LEVELS.c.row_id)
    return [_archived_level(row) for row in connection.execute(query)]


def telemetry_after(connection: Connection, cursor: int, limit: int) -> list[ArchivedTelemetry]:
    """Up to ``limit`` telemetry records above a cursor, ascending."""
    query = (
        select(TELEMETRY, *_TIMED)
        .join(ENVELOPES, ENVELOPES.c.row_id == TELEMETRY.c.row_id)
        .where(*_ready(Kind.TELEMETRY, cursor))
        .order_by(ENVELOPES.c.ready)
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


def backlog(connection: Connection, kind: Kind, after: int, until: int | None) -> Backlog:
    """What there is of a kind above a cursor, and up to another one."""
    where = _ready(kind, after)
    if until is not None:
        where = (*where, ENVELOPES.c.ready <= until)
    rows = connection.scalar(select(func.count()).select_from(ENVELOPES).where(*where)) or 0
    oldest = select(ENVELOPES.c.received_ns).where(*where).order_by(ENVELOPES.c.ready).limit(1)
    return Backlog(rows, connection.scalar(oldest))


def cursor_before(connection: Connection, kind: Kind, since_ns: int) -> int:
    """The cursor below the first record of a kind at or after an effective time."""
    first = connection.scalar(
        select(func.min(ENVELOPES.c.ready)).where(
            ENVELOPES.c.kind == kind.value,
            # What came earlier has no such time, and need not be looked at.
            ENVELOPES.c.received_ns >= since_ns - AHEAD_NS,
            ENVELOPES.c.effective_wall_ns >= since_ns,
        )
    )
    if first is not None:
        return int(first) - 1
    return connection.scalar(select(SEQUENCES.c.last).where(SEQUENCES.c.name == "ready")) or 0


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


def heartbeats(connection: Connection, since_ns: int) -> list[HeartbeatRow]:
    """The last heartbeat of each device, of those that came since an instant."""
    query = (
        select(ENVELOPES.c.device_id, ENVELOPES.c.received_ns, ENVELOPES.c.raw)
        .join(DEVICES, DEVICES.c.heartbeat_row_id == ENVELOPES.c.row_id)
        .where(ENVELOPES.c.received_ns >= since_ns)
        .order_by(ENVELOPES.c.device_id)
    )
    found = []
    for row in connection.execute(query):
        envelope, record = _decoded(row.raw)
        if isinstance(record, Heartbeat):
            found.append(HeartbeatRow(row.device_id, row.received_ns, envelope.wall_ns, record))
    return found


def shared_ids(connection: Connection, since_ns: int) -> list[str]:
    """Devices whose id two machines were seen to share since an instant."""
    query = select(DEVICES.c.device_id).where(DEVICES.c.conflict_ns >= since_ns)
    return list(connection.scalars(query.order_by(DEVICES.c.device_id)))


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
    """How far a projection is; 0 before its first record."""
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


_TIMED = (
    ENVELOPES.c.ready,
    ENVELOPES.c.epoch,
    ENVELOPES.c.seq,
    # While no time is fixed, for those who ask nevertheless.
    func.coalesce(ENVELOPES.c.effective_wall_ns, ENVELOPES.c.received_ns).label("counts_ns"),
    ENVELOPES.c.raw,
)


def _levels() -> Any:
    columns = select(ENVELOPES.c.row_id, *_TIMED)
    return columns.join(LEVELS, LEVELS.c.row_id == ENVELOPES.c.row_id)


def _ready(kind: Kind, after: int) -> tuple[Any, ...]:
    return (ENVELOPES.c.kind == kind.value, ENVELOPES.c.ready > after)


def _archived_level(row: Any) -> ArchivedLevel:
    envelope, level = _decoded(row.raw)
    if not isinstance(level, LevelResult):
        raise TypeError(f"row {row.row_id} of levels is a {envelope.kind.value}")
    return ArchivedLevel(row.ready or 0, row.counts_ns, level, row.epoch + row.seq)


def _archived_telemetry(row: Any, device: Device | None) -> ArchivedTelemetry:
    envelope, record = _decoded(row.raw)
    if not isinstance(record, Telemetry):
        raise TypeError(f"row {row.row_id} of telemetry is a {envelope.kind.value}")
    tie = row.epoch + row.seq
    return ArchivedTelemetry(row.ready, row.counts_ns, row.device_id, device, record, tie)


def _device_row(connection: Connection, row: Any) -> DeviceRow:
    told_in, told = _record(connection, row.device_row_id)
    beat_in, heartbeat = _record(connection, row.heartbeat_row_id)
    telemetry = _record(connection, row.telemetry_row_id)[1]
    return DeviceRow(
        device_id=row.device_id,
        first_seen_ns=row.first_seen_ns,
        last_seen_ns=row.last_seen_ns,
        agent_version=told_in.agent_version if told_in else "",
        device=_described(told),
        heartbeat=heartbeat if isinstance(heartbeat, Heartbeat) else None,
        telemetry=telemetry if isinstance(telemetry, Telemetry) else None,
        telemetry_ns=_of(connection, row.telemetry_row_id, ENVELOPES.c.effective_wall_ns),
        skew_ns=_skew_ns(connection, row.heartbeat_row_id, beat_in),
        clock=beat_in.clock if beat_in else None,
        conflict_ns=row.conflict_ns,
    )


def _skew_ns(connection: Connection, row_id: int | None, beat_in: Envelope | None) -> int | None:
    if beat_in is None:
        return None
    received_ns: int = _of(connection, row_id, ENVELOPES.c.received_ns)
    return received_ns - beat_in.wall_ns


def _of(connection: Connection, row_id: int | None, column: Any) -> Any:
    return connection.scalar(select(column).where(ENVELOPES.c.row_id == row_id))


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
