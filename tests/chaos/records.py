"""Records with a number of their own in them, so that each can be found again whatever its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep import codec, envelope
from edgesweep.records import (
    Contender,
    Device,
    Distribution,
    Event,
    Kind,
    LevelResult,
    LevelStatus,
    SensorValue,
    Telemetry,
    Workload,
)

if TYPE_CHECKING:
    import random

NAME = "chaos"
_KINDS = (Kind.TELEMETRY,) * 6 + (Kind.EVENT,) * 3 + (Kind.LEVEL,) * 2
_CONTENDER = Contender("llama.cpp", "llama.cpp", "b6500", slots=8)
Id = tuple[str, int]
"""The device, and the number of the record among all that it was given."""


def made(device_id: str, number: int, dice: random.Random, wall_ns: int):
    """The kind and the payload of a record."""
    kind = dice.choice(_KINDS)
    if kind is Kind.TELEMETRY:
        values = (SensorValue(f"sensor_{n}", "C", dice.uniform(20, 90)) for n in range(20))
        record = Telemetry((SensorValue(NAME, "1", float(number)), *values))
    elif kind is Kind.EVENT:
        text = "x" * dice.randrange(2000)
        record = Event(NAME, text, {NAME: str(number)})
    else:
        record = _level(device_id, number, wall_ns)
    return codec.encode(record)


def id_of(raw: bytes) -> Id | None:
    """Whose record it is; ``None`` for an agent's own."""
    found = envelope.decode(raw)
    record = codec.decode(found.kind, found.payload)
    if isinstance(record, LevelResult):
        return found.device_id, record.concurrency
    if isinstance(record, Event) and record.name == NAME:
        return found.device_id, int(record.attributes[NAME])
    if isinstance(record, Telemetry) and record.readings[0].name == NAME:
        return found.device_id, int(record.readings[0].value)
    return None


def _level(device_id: str, number: int, wall_ns: int) -> LevelResult:
    rate = 10.0 + number % 50
    return LevelResult(
        run_id=f"{NAME}-{device_id}",
        device=Device(device_id, "chaos.box", "free"),
        contender=_CONTENDER,
        session=1,
        workload=Workload("chat-512-128", 512, 128),
        concurrency=number,
        status=LevelStatus.VALID,
        started_wall_ns=wall_ns,
        started_mono_ns=number,
        n_ok=20,
        values={"output_tokens_per_s": rate, "requests_per_s": rate / 128},
        distributions={"ttft_s": Distribution(20, 0.3, 0.1, 0.5, p50=0.29)},
    )
