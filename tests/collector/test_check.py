"""The check of what arrives: what may be archived, and the reason of what may not."""

from __future__ import annotations

import pytest

import wire
from edgesweep.envelope import MAX_PAYLOAD_BYTES, UnknownKind
from edgesweep.records import Event
from edgesweep.v1 import transport_pb2 as pb
from edgesweep_collector.archive.rows import Received
from edgesweep_collector.ingest.check import Refusal, check


def _event(seq, **fields):
    return wire.raw(Event("a", "b"), seq, **fields)


def _with(**fields):
    message = pb.Envelope.FromString(_event(9))
    for name, value in fields.items():
        setattr(message, name, value)
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("raw", "reason", "seq"),
    [
        (_event(9, device_id="n97-02"), "identity", 9),
        (_event(9, device_id="N97 02"), "device_id", 9),
        (_event(9, device_id=""), "device_id", 9),
        (_event(9, schema=0), "schema", 9),
        (_event(9, epoch=2**63), "sequence", 9),
        (_event(2**63), "sequence", 2**63),
        (_event(9, payload=bytes(MAX_PAYLOAD_BYTES + 1)), "size", 9),
        (_event(9, payload=bytes(2 * MAX_PAYLOAD_BYTES)), "size", None),
        (_with(crc32=1), "crc", 9),
        (_with(kind=0), "kind", 9),
        (b"\x0a\xff", "not_an_envelope", None),
        (b"", "kind", 0),
    ],
    ids=[
        "another device",
        "a space in the device",
        "no device",
        "no schema",
        "an epoch too large",
        "a sequence too large",
        "a payload too large",
        "a payload far too large",
        "a damaged payload",
        "no kind",
        "no envelope",
        "nothing",
    ],
)
def test_every_refusal_has_its_reason(raw, reason, seq):
    refusal = check(raw, "n97-01", 5, "test")
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.seq) == (reason, seq)


def test_what_is_sound_passes_with_its_bytes():
    raw = _event(9)
    for identity in ("n97-01", None):
        passed = check(raw, identity, 5, "test")
        assert isinstance(passed, Received)
        assert (passed.raw, passed.received_ns, passed.envelope.seq) == (raw, 5, 9)


@pytest.mark.parametrize("fields", [{"schema": 2}, {"kind": 9}, {"clock": 9}])
def test_what_a_newer_agent_sends_passes(fields):
    raw = _with(**fields) + b"\x9a\x06\x03new"
    passed = check(raw, "n97-01", 5, "test")
    assert isinstance(passed, Received)
    assert passed.raw == raw
    if "kind" in fields:
        assert passed.envelope.kind == UnknownKind(9)
