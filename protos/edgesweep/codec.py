"""Records to payload bytes and back, both directions side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError, Message

from .envelope import UnknownKind, WireError
from .records import (
    Birth,
    Contender,
    Device,
    Distribution,
    Event,
    Flag,
    Heartbeat,
    Kind,
    LevelResult,
    LevelStatus,
    MemoryVerdict,
    Record,
    Run,
    RunState,
    SensorValue,
    Telemetry,
    Workload,
)
from .v1 import records_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

_STATUS = {int(pb.Level.Status.Value(status.name)): status for status in LevelStatus}
_STATE = {int(pb.Run.State.Value(state.name)): state for state in RunState}


def _device_to(device: Device) -> pb.Device:
    return pb.Device(
        device_id=device.device_id,
        hardware_class=device.hardware_class,
        performance_state=device.performance_state,
        attributes=dict(device.attributes),
        labels=dict(device.labels),
    )


def _device_from(message: pb.Device) -> Device:
    return Device(
        device_id=message.device_id,
        hardware_class=message.hardware_class,
        performance_state=message.performance_state,
        attributes=dict(message.attributes),
        labels=dict(message.labels),
    )


def _contender_to(contender: Contender) -> pb.Contender:
    return pb.Contender(
        id=contender.id,
        name=contender.name,
        engine=contender.engine,
        engine_version=contender.engine_version,
        build=contender.build,
        model=contender.model,
        model_sha256=contender.model_sha256,
        weight_format=contender.weight_format,
        slots=contender.slots,
        context_per_request=contender.context_per_request,
        managed=contender.managed,
        launcher=contender.launcher,
        settings=dict(contender.settings),
    )


def _contender_from(message: pb.Contender) -> Contender:
    return Contender(
        name=message.name,
        engine=message.engine,
        engine_version=message.engine_version,
        build=message.build,
        model=message.model,
        model_sha256=message.model_sha256,
        weight_format=message.weight_format,
        slots=message.slots if message.HasField("slots") else None,
        context_per_request=(
            message.context_per_request if message.HasField("context_per_request") else None
        ),
        managed=message.managed,
        launcher=message.launcher,
        settings=dict(message.settings),
    )


def _birth_to(birth: Birth) -> pb.Birth:
    return pb.Birth(
        device=_device_to(birth.device),
        started_wall_ns=birth.started_wall_ns,
        connection=birth.connection,
    )


def _birth_from(message: pb.Birth) -> Birth:
    return Birth(
        device=_device_from(message.device),
        started_wall_ns=message.started_wall_ns,
        connection=message.connection,
    )


def _event_to(event: Event) -> pb.Event:
    return pb.Event(name=event.name, message=event.message, attributes=dict(event.attributes))


def _event_from(message: pb.Event) -> Event:
    return Event(name=message.name, message=message.message, attributes=dict(message.attributes))


def _heartbeat_to(heartbeat: Heartbeat) -> pb.Heartbeat:
    return pb.Heartbeat(
        uptime_s=heartbeat.uptime_s,
        spool_rows=heartbeat.spool_rows,
        spool_bytes=heartbeat.spool_bytes,
        dropped=dict(heartbeat.dropped),
        sensor_up=dict(heartbeat.sensor_up),
        troubles=dict(heartbeat.troubles),
    )


def _heartbeat_from(message: pb.Heartbeat) -> Heartbeat:
    return Heartbeat(
        uptime_s=message.uptime_s,
        spool_rows=message.spool_rows,
        spool_bytes=message.spool_bytes,
        dropped=dict(message.dropped),
        sensor_up=dict(message.sensor_up),
        troubles=dict(message.troubles),
    )


def _telemetry_to(telemetry: Telemetry) -> pb.Telemetry:
    return pb.Telemetry(
        readings=[
            pb.Reading(name=one.name, unit=one.unit, value=one.value, reason=one.reason)
            for one in telemetry.readings
        ]
    )


def _telemetry_from(message: pb.Telemetry) -> Telemetry:
    return Telemetry(
        tuple(
            SensorValue(
                name=one.name,
                unit=one.unit,
                value=one.value if one.HasField("value") else None,
                reason=one.reason,
            )
            for one in message.readings
        )
    )


def _run_to(run: Run) -> pb.Run:
    return pb.Run(
        run_id=run.run_id,
        state=run.state.name,
        reason=run.reason,
        device=_device_to(run.device),
        plan_json=run.plan_json,
        contenders=[_contender_to(contender) for contender in run.contenders],
        started_wall_ns=run.started_wall_ns,
        ended_wall_ns=run.ended_wall_ns,
        n_levels=run.n_levels,
    )


def _run_from(message: pb.Run) -> Run:
    return Run(
        run_id=message.run_id,
        state=_STATE[message.state],
        reason=message.reason,
        device=_device_from(message.device),
        plan_json=message.plan_json,
        contenders=tuple(_contender_from(contender) for contender in message.contenders),
        started_wall_ns=message.started_wall_ns,
        ended_wall_ns=message.ended_wall_ns if message.HasField("ended_wall_ns") else None,
        n_levels=message.n_levels,
    )


def _distribution_to(d: Distribution) -> pb.Distribution:
    return pb.Distribution(
        n=d.n, mean=d.mean, min=d.min, max=d.max, p50=d.p50, p90=d.p90, p95=d.p95, p99=d.p99
    )


def _distribution_from(message: pb.Distribution) -> Distribution:
    return Distribution(
        n=message.n,
        mean=message.mean,
        min=message.min,
        max=message.max,
        p50=message.p50 if message.HasField("p50") else None,
        p90=message.p90 if message.HasField("p90") else None,
        p95=message.p95 if message.HasField("p95") else None,
        p99=message.p99 if message.HasField("p99") else None,
    )


def _flag_to(flag: Flag) -> pb.Flag:
    return pb.Flag(name=flag.name, value=flag.value, threshold=flag.threshold, detail=flag.detail)


def _flag_from(message: pb.Flag) -> Flag:
    return Flag(
        name=message.name,
        value=message.value if message.HasField("value") else None,
        threshold=message.threshold if message.HasField("threshold") else None,
        detail=message.detail,
    )


def _verdict_to(verdict: MemoryVerdict | None) -> pb.MemoryVerdict | None:
    if verdict is None:
        return None
    return pb.MemoryVerdict(
        admit=verdict.admit,
        needed_bytes=verdict.needed_bytes,
        available_bytes=verdict.available_bytes,
        reserve_bytes=verdict.reserve_bytes,
        limited_by=verdict.limited_by,
        terms=[pb.MemoryVerdict.Term(name=name, bytes=size) for name, size in verdict.terms],
    )


def _verdict_from(message: pb.MemoryVerdict) -> MemoryVerdict:
    return MemoryVerdict(
        admit=message.admit,
        needed_bytes=message.needed_bytes,
        available_bytes=message.available_bytes,
        reserve_bytes=message.reserve_bytes,
        limited_by=message.limited_by,
        terms=tuple((term.name, term.bytes) for term in message.terms),
    )


def _level_to(level: LevelResult) -> pb.Level:
    return pb.Level(
        run_id=level.run_id,
        device=_device_to(level.device),
        contender=_contender_to(level.contender),
        session=level.session,
        workload=pb.Workload(
            name=level.workload.name,
            prompt_tokens=level.workload.prompt_tokens,
            output_tokens=level.workload.output_tokens,
        ),
        concurrency=level.concurrency,
        attempt=level.attempt,
        status=level.status.name,
        reason=level.reason,
        flags=[_flag_to(flag) for flag in level.flags],
        started_wall_ns=level.started_wall_ns,
        started_mono_ns=level.started_mono_ns,
        n_ok=level.n_ok,
        n_failed=level.n_failed,
        failed_by=dict(level.failed_by),
        values=dict(level.values),
        distributions={k: _distribution_to(d) for k, d in level.distributions.items()},
        block_output_tokens_per_s=level.block_output_tokens_per_s,
        attributes=dict(level.attributes),
        verdict=_verdict_to(level.verdict),
        window_start_mono_ns=level.window_mono_ns and level.window_mono_ns[0],
        window_end_mono_ns=level.window_mono_ns and level.window_mono_ns[1],
    )


def _level_from(message: pb.Level) -> LevelResult:
    return LevelResult(
        run_id=message.run_id,
        device=_device_from(message.device),
        contender=_contender_from(message.contender),
        session=message.session,
        workload=Workload(
            name=message.workload.name,
            prompt_tokens=message.workload.prompt_tokens,
            output_tokens=message.workload.output_tokens,
        ),
        concurrency=message.concurrency,
        attempt=message.attempt,
        status=_STATUS[message.status],
        reason=message.reason,
        flags=tuple(_flag_from(flag) for flag in message.flags),
        started_wall_ns=message.started_wall_ns,
        started_mono_ns=message.started_mono_ns,
        n_ok=message.n_ok,
        n_failed=message.n_failed,
        failed_by=dict(message.failed_by),
        values=dict(message.values),
        distributions={k: _distribution_from(d) for k, d in message.distributions.items()},
        block_output_tokens_per_s=tuple(message.block_output_tokens_per_s),
        attributes=dict(message.attributes),
        verdict=_verdict_from(message.verdict) if message.HasField("verdict") else None,
        window_mono_ns=(
            (message.window_start_mono_ns, message.window_end_mono_ns)
            if message.HasField("window_start_mono_ns")
            else None
        ),
    )


_ENCODERS: dict[type, tuple[Kind, Callable[..., Message]]] = {
    Birth: (Kind.BIRTH, _birth_to),
    Event: (Kind.EVENT, _event_to),
    LevelResult: (Kind.LEVEL, _level_to),
    Run: (Kind.RUN, _run_to),
    Heartbeat: (Kind.HEARTBEAT, _heartbeat_to),
    Telemetry: (Kind.TELEMETRY, _telemetry_to),
}

_DECODERS: dict[Kind, tuple[type[Message], Callable[..., Record]]] = {
    Kind.BIRTH: (pb.Birth, _birth_from),
    Kind.EVENT: (pb.Event, _event_from),
    Kind.LEVEL: (pb.Level, _level_from),
    Kind.RUN: (pb.Run, _run_from),
    Kind.HEARTBEAT: (pb.Heartbeat, _heartbeat_from),
    Kind.TELEMETRY: (pb.Telemetry, _telemetry_from),
}


def encode(record: Record) -> tuple[Kind, bytes]:
    """The kind of a record and its payload bytes; equal records give equal bytes."""
    kind, to_message = _ENCODERS[type(record)]
    return kind, to_message(record).SerializeToString(deterministic=True)


def decode(kind: Kind | UnknownKind, payload: bytes) -> Record:
    """The record in a payload.

    Raises:
        WireError: bytes that are no such message, or a kind or an enumeration value that this
            version does not know.
    """
    if isinstance(kind, UnknownKind):
        raise WireError(f"{kind.value} is unknown to this version")
    message_type, from_message = _DECODERS[kind]
    try:
        return from_message(message_type.FromString(payload))
    except DecodeError as error:
        raise WireError(f"payload is not a {kind.value}: {error}") from error
    except KeyError as error:
        raise WireError(f"payload of {kind.value} has an unknown value {error}") from error
