"""Envelopes as a device makes them, for the tests of the receiving side."""

from __future__ import annotations

import time
import zlib

from edgesweep import codec, envelope
from edgesweep.envelope import Envelope
from edgesweep.records import (
    ClockQuality,
    Contender,
    Device,
    Distribution,
    Flag,
    LevelResult,
    LevelStatus,
    Run,
    RunState,
    Workload,
)
from edgesweep.v1 import transport_pb2 as pb
from edgesweep_collector.archive.rows import Received

DEVICE = Device("n97-01", "n97-16g", "pl-15w", {"cpu": "N97"}, {"site": "ulm"})
LLAMA = Contender("llama", "llama.cpp", "b6000", slots=4, settings={"threads": "4"})
VLLM = Contender("vllm", "vllm", "0.11.0", slots=8)
EPOCH = 0x1122334455667788
MADE_NS = time.time_ns()
"""When a device makes its records: a resend has the same bytes, times included."""


def level(concurrency=1, *, run_id="run-1", device=DEVICE, contender=LLAMA, **fields):
    fields = {
        "session": 1,
        "workload": Workload("chat-512-128", 512, 128),
        "status": LevelStatus.VALID,
        "started_wall_ns": 1,
        "started_mono_ns": 2,
        "n_ok": 20,
        "values": {"output_tokens_per_s": 40.5, "prompt_tokens": 10240.0},
        "distributions": {"ttft_s": Distribution(20, 0.3, 0.1, 0.5, p50=0.29)},
        "flags": (Flag("throttled", 0.2, 0.05, "cpu"),),
        "block_output_tokens_per_s": (40.0, 41.0),
        **fields,
    }
    return LevelResult(run_id, device, contender, concurrency=concurrency, **fields)


def run(run_id="run-1", *, state=RunState.RUNNING, device=DEVICE, **fields):
    fields = {
        "plan_json": '{"levels": [1, 2]}',
        "contenders": (LLAMA,),
        "started_wall_ns": 5,
    } | fields
    return Run(run_id, state, device, **fields)


def enveloped(record, seq, *, device_id="n97-01", epoch=EPOCH, **fields) -> Envelope:
    kind, payload = codec.encode(record)
    fields = {
        "boot_id": "boot",
        "agent_version": "0.1.0",
        "kind": kind,
        "wall_ns": MADE_NS,
        "mono_ns": 1,
        "clock": ClockQuality.SYNCED,
        "payload": payload,
        **fields,
    }
    return Envelope(device_id, epoch, seq, **fields)


def raw(record, seq, **fields) -> bytes:
    return envelope.encode(enveloped(record, seq, **fields))


def received(record, seq, *, received_ns=None, **fields) -> Received:
    made = enveloped(record, seq, **fields)
    return Received(envelope.encode(made), made, received_ns or time.time_ns(), "grpc")


def damaged(record, seq, **fields) -> bytes:
    """An envelope whose payload no longer matches its checksum."""
    message = pb.Envelope.FromString(raw(record, seq, **fields))
    message.crc32 = zlib.crc32(message.payload) ^ 1
    return message.SerializeToString()
