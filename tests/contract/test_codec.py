from __future__ import annotations

import dataclasses

import pytest

from edgesweep import codec, envelope
from edgesweep.envelope import Ack, AckStatus, Envelope, WireError
from edgesweep.records import (
    Birth,
    ClockQuality,
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
    Run,
    RunState,
    SensorValue,
    Telemetry,
    Workload,
)

DEVICE = Device("orin-07", "orin-nano-8gb", "15w", {"cpu": "A78AE"}, {"site": "plant 4"})
CONTENDER = Contender(
    name="q4",
    engine="llama.cpp",
    engine_version="b1",
    slots=8,
    context_per_request=512,
    managed=True,
    settings={"threads": "2"},
)
LEVEL = LevelResult(
    run_id="r1",
    device=DEVICE,
    contender=CONTENDER,
    session=1,
    workload=Workload("demo", 64, 32),
    concurrency=4,
    status=LevelStatus.FLAGGED,
    started_wall_ns=-5,
    started_mono_ns=9,
    flags=(Flag("errors", 0.5, 0.01), Flag("x")),
    n_ok=11,
    n_failed=1,
    failed_by={"timeout": 1},
    values={"requests_per_s": 0.0},
    distributions={"ttft_s": Distribution(11, 0.2, 0.1, 0.3, p50=0.2)},
    block_output_tokens_per_s=(1.0, 0.0),
    attributes={"thermal": "soaked"},
    window_mono_ns=(0, 12),
    verdict=MemoryVerdict(False, 900, 800, 100, "cgroup", (("weights", 500), ("KV", 400))),
)
RECORDS = [
    Birth(DEVICE, 1, 2),
    Event("spool_quarantined", "set aside", {"bytes": "9"}),
    Heartbeat(1.5, 2, 3, {"telemetry": 4}, {"rapl": True, "nvml": False}),
    Telemetry((SensorValue("power", "W", 0.0), SensorValue("gpu", "C", reason="absent"))),
    Run("r1", RunState.RUNNING, DEVICE, "{}", (CONTENDER,), 5),
    Run("r1", RunState.INTERRUPTED, DEVICE, "{}", (), 5, 0, 3, "SIGINT"),
    LEVEL,
    dataclasses.replace(LEVEL, contender=Contender("x", "unknown"), flags=(), verdict=None),
]
ENVELOPE = Envelope(
    device_id="orin-07",
    epoch=2**63 - 1,
    seq=1,
    boot_id="b",
    agent_version="0.1.0",
    kind=Kind.LEVEL,
    wall_ns=-1,
    mono_ns=2,
    clock=ClockQuality.UNSYNCED,
    payload=b"payload",
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_a_record_survives_the_wire_and_encodes_to_the_same_bytes(record):
    kind, payload = codec.encode(record)
    assert codec.decode(kind, payload) == record
    assert codec.encode(codec.decode(kind, payload)) == (kind, payload)


def test_absent_is_not_zero():
    decoded = codec.decode(*codec.encode(LEVEL))
    assert isinstance(decoded, LevelResult)
    assert decoded.values["requests_per_s"] == 0.0
    assert decoded.distributions["ttft_s"].p90 is None
    assert decoded.flags[1].value is None


def test_a_contenders_id_is_its_configuration_and_not_its_label():
    renamed = dataclasses.replace(CONTENDER, name="other")
    slower = dataclasses.replace(CONTENDER, settings={"threads": "1"})
    assert renamed.id == CONTENDER.id
    assert slower.id != CONTENDER.id
    assert len(CONTENDER.id) == 64


def test_an_envelope_survives_the_wire():
    assert envelope.decode(envelope.encode(ENVELOPE)) == ENVELOPE


def test_a_damaged_payload_is_told_from_a_sound_one():
    data = envelope.encode(ENVELOPE).replace(b"payload", b"pbyload")
    with pytest.raises(WireError, match="crc"):
        envelope.decode(data)


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"", b"\x0a\x03abc"])
def test_bytes_that_are_no_envelope_are_refused(data):
    with pytest.raises(WireError):
        envelope.decode(data)


def test_unknown_enumeration_values_are_refused_by_name():
    kind, payload = codec.encode(RECORDS[4])
    with pytest.raises(WireError, match="unknown value 0"):
        codec.decode(kind, payload.replace(b"\x10\x01", b"\x10\x00", 1))
    with pytest.raises(WireError, match="not a level"):
        codec.decode(Kind.LEVEL, b"\xff")


def test_an_ack_survives_the_wire():
    ack = Ack("orin-07", 2**63 - 1, ((1, 3), (5, 5)), AckStatus.RETRY, "disk full", 2.5)
    assert envelope.decode_ack(envelope.encode_ack(ack)) == ack


@pytest.mark.parametrize(
    "data", [b"\xff", b"", envelope.encode_ack(Ack("d", 1, ((5, 4),), AckStatus.STORED))]
)
def test_a_bad_ack_is_refused(data):
    with pytest.raises(WireError):
        envelope.decode_ack(data)
