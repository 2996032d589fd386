"""The acceptor: nothing is acknowledged that is not committed, and every envelope is answered."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest

import wire
from edgesweep.envelope import MAX_PAYLOAD_BYTES, Ack, AckStatus
from edgesweep.records import Event
from edgesweep.v1 import transport_pb2 as pb
from edgesweep_collector.archive.rows import Kept, Received
from edgesweep_collector.counters import Counters
from edgesweep_collector.errors import ArchiveUnavailable
from edgesweep_collector.ingest.accept import Acceptor
from edgesweep_collector.ingest.check import Refusal, check

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Memory:
    """An archive whose commits wait for the test, and fail when it says so."""

    def __init__(self):
        self.held = []
        self.batches = []
        self.error = None
        self.gate = threading.Event()
        self.gate.set()

    def append(self, batch):
        self.gate.wait(10)
        self.batches.append(len(batch))
        if self.error:
            raise self.error
        new = []
        for received in batch:
            key = (received.envelope.device_id, received.envelope.epoch, received.envelope.seq)
            new.append(Kept.DUPLICATE if key in self.held else Kept.STORED)
            self.held.append(key)
        return new


class Fixture:
    def __init__(self):
        self.archive, self.counters = Memory(), Counters()
        self.acceptor = Acceptor(self.archive, self.counters)
        self.acks, self.settled = [], 0

    def settle(self):
        self.settled += 1

    async def submit(self, raw, identity=None):
        await self.acceptor.submit(raw, identity, "test", self.acks.append, self.settle)

    def count(self, name, **labels):
        return self.counters.registry.get_sample_value(f"edgesweep_{name}_total", labels)


@pytest.fixture
async def running():
    fixture = Fixture()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fixture.acceptor.run)
        yield fixture
        fixture.archive.gate.set()
        await fixture.acceptor.drain()


async def _until(condition):
    with anyio.fail_after(5):
        while not condition():
            await anyio.sleep(0.005)


def _event(seq, **fields):
    return wire.raw(Event("a", "b"), seq, **fields)


async def test_stored_and_duplicate_come_as_ranges(running):
    running.archive.gate.clear()
    for seq in (1, 2, 3, 5, 2):
        await running.submit(_event(seq))
    assert running.acks == []
    running.archive.gate.set()
    await _until(lambda: running.settled == 5)
    by_status = {}
    for ack in running.acks:
        assert (ack.device_id, ack.epoch) == ("n97-01", wire.EPOCH)
        by_status.setdefault(ack.status, []).extend(ack.ranges)
    assert by_status[AckStatus.DUPLICATE] == [(2, 2)]
    covered = sorted(n for a, b in by_status[AckStatus.STORED] for n in range(a, b + 1))
    assert covered == [1, 2, 3, 5]
    assert running.count("stored") == 4
    assert running.count("duplicates") == 1
    assert running.count("received", transport="test") == 5


async def test_what_waits_is_committed_in_groups(running):
    running.archive.gate.clear()
    for seq in range(1, 151):
        await running.submit(_event(seq))
    running.archive.gate.set()
    await _until(lambda: running.settled == 150)
    assert max(running.archive.batches) <= 64
    assert len(running.archive.batches) <= 4


async def test_a_full_queue_holds_the_transport_back(running):
    running.archive.gate.clear()
    sent = 0
    with anyio.move_on_after(1) as scope:
        for seq in range(1, 1000):
            await running.submit(_event(seq))
            sent = seq
    assert scope.cancelled_caught
    assert 256 <= sent <= 256 + 64
    running.archive.gate.set()
    await _until(lambda: running.settled >= sent)


async def test_a_failing_archive_acks_nothing_and_asks_for_patience(running, caplog):
    running.archive.error = ArchiveUnavailable("the archive does not write: disk is full")
    for seq in (1, 2, 3):
        await running.submit(_event(seq))
        await _until(lambda seq=seq: running.settled == seq)
    assert {ack.status for ack in running.acks} == {AckStatus.RETRY}
    assert [ack.retry_after_s for ack in running.acks] == [2.0, 4.0, 8.0]
    assert running.acceptor.health() == "the archive refuses writes"
    assert running.archive.held == []
    running.archive.error = None
    await running.submit(_event(1))
    await _until(lambda: running.settled == 4)
    assert running.acks[-1] == Ack("n97-01", wire.EPOCH, ((1, 1),), AckStatus.STORED)
    assert running.acceptor.health() is None
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


async def test_a_fault_in_the_archive_does_not_end_ingest(running):
    running.archive.error = RuntimeError("a bug")
    await running.submit(_event(1))
    await _until(lambda: running.settled == 1)
    running.archive.error = None
    await running.submit(_event(1))
    await _until(lambda: running.settled == 2)
    assert [ack.status for ack in running.acks] == [AckStatus.RETRY, AckStatus.STORED]


async def test_a_sender_that_is_gone_does_not_harm_the_others(running):
    def gone(ack):
        raise RuntimeError("no such stream")

    running.archive.gate.clear()
    await running.acceptor.submit(_event(1), None, "test", gone)
    await running.submit(_event(2))
    running.archive.gate.set()
    await _until(lambda: running.settled == 1)
    assert [ack.ranges for ack in running.acks] == [((2, 2),)]


async def test_a_refused_envelope_is_answered_at_once_and_counted(running):
    await running.submit(wire.damaged(Event("a", "b"), 7))
    await running.submit(b"\xff not an envelope")
    assert [(ack.status, ack.ranges) for ack in running.acks] == [(AckStatus.REJECTED, ((7, 7),))]
    assert running.acks[0].reason == "crc: the payload is damaged"
    assert running.settled == 2
    assert running.count("rejected", reason="crc") == 1
    assert running.count("rejected", reason="not_an_envelope") == 1
    assert running.archive.held == []


async def test_drain_answers_what_was_taken_and_takes_no_more(running):
    running.archive.gate.clear()
    for seq in range(1, 101):
        await running.submit(_event(seq))
    running.archive.gate.set()
    await running.acceptor.drain()
    assert running.settled == 100
    with pytest.raises(anyio.ClosedResourceError):
        await running.submit(_event(101))


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
        (_event(9, schema=2), "schema", 9),
        (_event(9, epoch=2**63), "sequence", 9),
        (_event(2**63), "sequence", 2**63),
        (_event(9, payload=bytes(MAX_PAYLOAD_BYTES + 1)), "size", 9),
        (_event(9, payload=bytes(2 * MAX_PAYLOAD_BYTES)), "size", None),
        (_with(kind=99), "kind", 9),
        (_with(crc32=1), "crc", 9),
        (b"\x0a\xff", "not_an_envelope", None),
        (b"", "kind", 0),
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
