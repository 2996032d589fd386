"""Whatever passes the check is stored: no value of a field keeps a group from being committed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import wire
from edgesweep import events
from edgesweep.events import Dropped
from edgesweep.records import (
    Birth,
    ClockQuality,
    Event,
    Heartbeat,
    RunState,
    SensorValue,
    Telemetry,
)
from edgesweep.v1 import transport_pb2 as pb
from edgesweep_collector.archive.rows import Kept, Received
from edgesweep_collector.ingest.check import check

TEXTS = ["", "a", "nul\0", "'; DROP TABLE envelopes; --", "%s {} ?", "\u202e", "x" * 5000, "é🙂"]
NUMBERS = [0, 1, -1, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -1.5, float("nan"), float("inf"), 1e308, 5e-324]
UNSIGNED = [0, 1, 2**32 - 1, 2**63 - 1, 2**64 - 1]


def drawn_record(draw):
    text, number, value = draw.choice(TEXTS), draw.choice(NUMBERS), draw.choice(FLOATS)
    device = replace(wire.DEVICE, hardware_class=text, labels={text: draw.choice(TEXTS)})
    made = [
        Birth(device, number, draw.choice(UNSIGNED)),
        Event(text, draw.choice(TEXTS), {draw.choice(TEXTS): text}),
        events.clock_set(number, 5),
        Event("clock_set", "", {"offset_ns": str(number * 7)}),
        Event("records_dropped", text, {"epoch": "f" * draw.randint(1, 20), "ranges": "1-9"}),
        events.records_dropped(Dropped(draw.choice([5, 2**63 - 1]), ((1, 2**63 - 1),), {}, text)),
        events.records_dropped(Dropped(5, (), {text: 2**70}, "")),
        Heartbeat(value, draw.choice(UNSIGNED), 0, {text: 1}, {text: True}, {text: text}),
        Telemetry((SensorValue(text, text, value, text), SensorValue(text, text))),
        wire.level(draw.choice([0, 2**32 - 1]), run_id=text, device=device, values={text: value},
                   started_wall_ns=number, reason=text, attempt=draw.choice([0, 2**32 - 1])),
        wire.run(text, device=device, state=draw.choice(list(RunState)), reason=text,
                 started_wall_ns=number, ended_wall_ns=draw.choice([None, number])),
    ]  # fmt: skip
    return draw.choice(made)


def drawn_envelope(draw, seq):
    raw = wire.raw(
        drawn_record(draw),
        seq,
        boot_id=draw.choice(TEXTS),
        agent_version=draw.choice(TEXTS),
        wall_ns=draw.choice([*NUMBERS, wire.MADE_NS]),
        mono_ns=draw.choice([*NUMBERS, 10**9]),
        clock=draw.choice(list(ClockQuality)),
        epoch=draw.choice([0, 5, 2**63 - 1]),
        device_id=draw.choice(["n97-01", "n97-02"]),
    )
    if draw.random() < 0.1:
        message = pb.Envelope.FromString(raw)
        message.kind, message.schema = draw.choice([1, 6, 99]), draw.choice([1, 2, 2**32 - 1])
        raw = message.SerializeToString()
    return raw


@pytest.mark.parametrize("seed", range(3))
def test_whatever_passes_the_check_is_stored(either_archive, seed):
    archive, draw = either_archive, random.Random(seed)
    seqs = [*range(300), 2**63 - 1]
    draw.shuffle(seqs)
    stored = 0
    for start in range(0, len(seqs), 20):
        raws = [drawn_envelope(draw, seq) for seq in seqs[start : start + 20]]
        passed = [check(raw, None, wire.MADE_NS, "mqtt") for raw in raws]
        group = [one for one in passed if isinstance(one, Received)]
        kept = archive.append(group)
        assert set(kept) <= {Kept.STORED}
        stored += len(kept)
    assert stored == len(seqs)
    assert sum(archive.counts_by_kind().values()) == stored
    archive.settle_clocks(wire.MADE_NS + 3600 * 10**9)
    with archive._read() as connection:
        query = "SELECT count(*) FROM envelopes WHERE effective_wall_ns IS NULL"
        assert connection.exec_driver_sql(query).scalar() == 0
    # And everything that reads goes on to read.
    archive.devices()
    archive.gaps()
    archive.gaps_to_ask({"n97-01", "n97-02"}, wire.MADE_NS + 3600 * 10**9)
    archive.heartbeats(0)
    archive.runs()
    archive.telemetry_after(0, 999)
    archive.levels_after(0, 999)
    archive.rebuild()
    assert sum(1 for _ in archive.carried()) >= stored
    archive.prune(wire.MADE_NS + 10**18, 1, 1)
