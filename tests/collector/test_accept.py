"""The acceptor: nothing is acknowledged that is not committed, and every envelope is answered."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest

import wire
from edgesweep.envelope import Ack, AckStatus
from edgesweep.records import Event
from edgesweep_collector.archive.rows import Kept
from edgesweep_collector.counters import Counters
from edgesweep_collector.errors import ArchiveUnavailable
from edgesweep_collector.ingest.accept import Acceptor

pytestmark = pytest.mark.anyio

# Of one sender: what may wait, and what one commit takes (docs/decisions/0012).
LINE, SHARE = 256, 16


class Memory:
    """An archive whose commits wait for the test, and fail when it says so."""

    def __init__(self):
        self.held = []
        self.batches = []
        self.error = None
        self.poison = None
        self.gate = threading.Event()
        self.gate.set()

    def append(self, batch):
        self.gate.wait(10)
        self.batches.append(len(batch))
        if self.error:
            raise self.error
        if any(received.envelope.seq == self.poison for received in batch):
            raise ValueError("a bug")
        new = []
        for received in batch:
            key = (received.envelope.device_id, received.envelope.epoch, received.envelope.seq)
            new.append(Kept.DUPLICATE if key in self.held else Kept.STORED)
            self.held.append(key)
        return new


class Fixture:
    def __init__(self, **options):
        self.archive, self.counters = Memory(), Counters()
        self.acks, self.settled, self.now_s = [], 0, 100.0
        options = {"monotonic": lambda: self.now_s, "sleep": self.sleep} | options
        self.acceptor = Acceptor(self.archive, self.counters, **options)

    def settle(self):
        self.settled += 1

    async def sleep(self, seconds):
        self.now_s += seconds
        await anyio.lowlevel.checkpoint()

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
    for seq in range(1, 121):
        device_id = f"n97-0{seq % 6}"
        await running.submit(_event(seq, device_id=device_id), device_id)
    running.archive.gate.set()
    await _until(lambda: running.settled == 120)
    assert max(running.archive.batches) == 64
    assert len(running.archive.batches) <= 4


async def test_a_full_queue_holds_its_sender_back_and_no_other(running):
    running.archive.gate.clear()
    sent = 0

    async def flood():
        nonlocal sent
        for seq in range(1, 1000):
            await running.submit(_event(seq), "n97-01")
            sent = seq

    async with anyio.create_task_group() as flooding:
        flooding.start_soon(flood)
        await anyio.sleep(0.3)
        assert LINE <= sent <= LINE + SHARE
        with anyio.fail_after(1):
            await running.submit(_event(1, device_id="n97-02"), "n97-02")
        running.archive.gate.set()
    await _until(lambda: running.settled == 1000)
    # After the commit that was under way, and no more than a share of the flood.
    assert [device_id for device_id, _, _ in running.archive.held].index("n97-02") <= 2 * SHARE


async def test_what_never_waits_is_turned_away_without_a_word(running):
    running.archive.gate.clear()

    def offered(seq, device_id="n97-01"):
        raw = _event(seq, device_id=device_id)
        return running.acceptor.offer(raw, device_id, "test", running.acks.append, running.settle)

    taken = sum(offered(seq) for seq in range(1, 1000))
    assert LINE <= taken <= LINE + SHARE
    assert running.count("retries") == 999 - taken
    assert offered(1, "n97-02")
    assert running.acceptor.offer(b"x", "n97-03", "test", running.acks.append, running.settle)
    assert running.settled == 1
    running.archive.gate.set()
    await _until(lambda: running.settled == taken + 2)
    running.acceptor.close()
    with pytest.raises(anyio.ClosedResourceError):
        offered(1000)


async def test_one_bad_envelope_does_not_keep_out_what_came_with_it(running):
    running.archive.poison = 3
    running.archive.gate.clear()
    for seq in (1, 2, 3, 4):
        await running.submit(_event(seq))
    running.archive.gate.set()
    await _until(lambda: running.settled == 4)
    statuses = {seq: ack.status for ack in running.acks for a, b in ack.ranges
                for seq in range(a, b + 1)}  # fmt: skip
    assert statuses.pop(3) is AckStatus.RETRY
    assert set(statuses.values()) == {AckStatus.STORED}


async def test_garbage_is_told_of_once_a_minute_and_slowed(caplog):
    now_s, slept = 0.0, []

    async def sleep(seconds):
        slept.append(seconds)

    fixture = Fixture(monotonic=lambda: now_s, sleep=sleep)
    for _ in range(100):
        await fixture.submit(b"garbage", "n97-01")
    await fixture.submit(b"garbage", "n97-02")
    now_s = 61.0
    await fixture.submit(b"garbage", "n97-01")
    told = [(r.in_a_row, r.unsaid) for r in caplog.records]
    assert told == [(1, 0), (1, 0), (101, 99)]
    assert slept == [0.1] * 81
    assert fixture.count("rejected", reason="not_an_envelope") == 102
    fixture.acceptor.close()


async def test_a_device_that_was_heard_can_be_asked(running):
    await running.submit(_event(1), "n97-01")
    await _until(lambda: running.settled == 1)
    assert running.acceptor.heard() == {"n97-01"}
    ask = Ack("n97-01", wire.EPOCH, ((2, 3),), AckStatus.RESEND)
    running.acceptor.tell(ask)
    running.acceptor.tell(Ack("n97-09", 1, ((2, 3),), AckStatus.RESEND))
    assert running.acks[-1] == ask


async def test_a_short_refusal_is_a_slow_commit(caplog):
    told = []

    async def sleep(seconds):
        told.append(fixture.acceptor.health())
        await fixture.sleep(seconds)
        if len(told) == 20:
            fixture.archive.error = None

    fixture = Fixture(sleep=sleep)
    fixture.archive.error = ArchiveUnavailable("the archive does not write: restarting")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fixture.acceptor.run)
        await fixture.submit(_event(1))
        await _until(lambda: fixture.settled == 1)
        await fixture.acceptor.drain()
    assert fixture.acks == [Ack("n97-01", wire.EPOCH, ((1, 1),), AckStatus.STORED)]
    assert told == ["the archive refuses writes"] * 20
    assert fixture.acceptor.health() is None
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


async def test_a_failing_archive_acks_nothing_and_asks_for_patience(running):
    running.archive.error = ArchiveUnavailable("the archive does not write: disk is full")
    for seq, later_s in enumerate((0.0, 0.0, 5.0, 900.0), 1):
        running.now_s += later_s
        await running.submit(_event(seq))
        await _until(lambda seq=seq: running.settled == seq)
    assert {ack.status for ack in running.acks} == {AckStatus.RETRY}
    # As long again as it has lasted, whatever the number of records that came.
    assert [ack.retry_after_s for ack in running.acks] == [10.0, 10.0, 15.0, 60.0]
    assert running.archive.held == []
    running.archive.error = None
    await running.submit(_event(1))
    await _until(lambda: running.settled == 5)
    assert running.acks[-1] == Ack("n97-01", wire.EPOCH, ((1, 1),), AckStatus.STORED)


async def test_what_is_held_is_answered_at_the_end():
    fixture = Fixture(sleep=anyio.sleep)
    fixture.archive.error = ArchiveUnavailable("the archive does not write: disk is full")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fixture.acceptor.run)
        await fixture.submit(_event(1))
        await _until(lambda: fixture.archive.batches)
        with anyio.fail_after(5):
            await fixture.acceptor.drain()
    assert [ack.status for ack in fixture.acks] == [AckStatus.RETRY]


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
