"""Bytes of every release stay decodable, and mean what they meant.

`tests/fixtures/wire/<release>/` holds an envelope of each kind and an ack, as that release wrote
them, with what they say as JSON. A new release adds a folder: `python
tests/contract/test_wire_fixtures.py 0.2.0`. No folder is ever changed.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from enum import Enum
from pathlib import Path

import pytest

from edgesweep import codec, envelope
from edgesweep.envelope import Ack, AckStatus, Envelope
from edgesweep.records import (
    Birth,
    ClockQuality,
    Contender,
    Device,
    Distribution,
    Event,
    Flag,
    Heartbeat,
    LevelResult,
    LevelStatus,
    Run,
    RunState,
    Workload,
)

WIRE = Path(__file__).resolve().parents[1] / "fixtures/wire"


def plain(value: object) -> object:
    """A record as JSON values."""

    def default(other: object) -> object:
        return other.value if isinstance(other, Enum) else other.hex()

    as_dict = dataclasses.asdict(value)
    return json.loads(json.dumps(as_dict, default=default, sort_keys=True))


@pytest.mark.parametrize("path", sorted(WIRE.glob("*/*.envelope.binpb")), ids=lambda p: p.name)
def test_an_old_envelope_still_says_what_it_said(path):
    said = json.loads(path.with_suffix(".json").read_text())
    opened = envelope.decode(path.read_bytes())
    assert plain(opened) == said["envelope"]
    read = plain(codec.decode(opened.kind, opened.payload))
    assert {name: read[name] for name in said["record"]} == said["record"]
    assert not any(value for name, value in read.items() if name not in said["record"])


@pytest.mark.parametrize("path", sorted(WIRE.glob("*/*.ack.binpb")), ids=lambda p: p.name)
def test_an_old_ack_still_says_what_it_said(path):
    said = json.loads(path.with_suffix(".json").read_text())
    assert plain(envelope.decode_ack(path.read_bytes())) == said


def test_every_kind_of_this_release_is_there():
    kinds = {path.name.split(".")[0] for path in WIRE.glob("0.1.0/*.envelope.binpb")}
    assert kinds == {"birth", "event", "level", "run", "heartbeat"}


def write(release: str) -> None:
    """Write what this checkout sends, as the fixtures of ``release``."""
    folder = WIRE / release
    folder.mkdir(parents=True)
    for seq, record in enumerate(_records(), start=1):
        kind, payload = codec.encode(record)
        made = Envelope(
            device_id="press-07",
            epoch=0x7FEDCBA987654321,
            seq=seq,
            boot_id="6f1c9d5e-0000-4000-8000-000000000000",
            agent_version=release,
            kind=kind,
            wall_ns=1_796_000_000_123_456_789,
            mono_ns=987_654_321,
            clock=ClockQuality.SYNCED,
            payload=payload,
        )
        path = folder / f"{kind.value}.envelope.binpb"
        path.write_bytes(envelope.encode(made))
        said = {"envelope": plain(made), "record": plain(record)}
        path.with_suffix(".json").write_text(json.dumps(said, indent=1) + "\n")
    ack = Ack("press-07", 0x7FEDCBA987654321, ((1, 3), (7, 7)), AckStatus.RETRY, "disk full", 2.5)
    path = folder / "retry.ack.binpb"
    path.write_bytes(envelope.encode_ack(ack))
    path.with_suffix(".json").write_text(json.dumps(plain(ack), indent=1) + "\n")


def _records() -> list:
    device = Device("press-07", "x86_64-4c-8gib", "15w", {"kernel": "6.1"}, {"site": "plant-4"})
    contender = Contender(
        "Q4", "llama.cpp", "b6500", "gcc", "m.gguf", "ab" * 32, "Q4_1", 8, 512,
        managed=True, launcher="process", settings={"threads": "2"},
    )  # fmt: skip
    level = LevelResult(
        "01a22dcb-797a-7451-b726-1a5cc65dec19", device, contender, 1,
        Workload("chat-64-32", 64, 32), 4, LevelStatus.FLAGGED, 5, 6, attempt=2,
        reason="", flags=(Flag("errors", 0.02, 0.01, "x"), Flag("y")), n_ok=49, n_failed=1,
        failed_by={"timeout": 1}, values={"output_tokens_per_s": 61.3, "cached_tokens": 0.0},
        distributions={"ttft_s": Distribution(49, 0.2, 0.1, 0.3, p50=0.21)},
        block_output_tokens_per_s=(60.0, 0.0, 62.5),
    )  # fmt: skip
    run = Run(level.run_id, RunState.COMPLETE, device, "{}", (contender,), 5, 7, 8, "why")
    return [
        Birth(device, 5, 3),
        Event("spool_quarantined", "set aside", {"bytes": "9"}),
        level,
        run,
        Heartbeat(12.5, 3, 400, {"telemetry": 7}),
    ]


if __name__ == "__main__":
    write(sys.argv[1])
