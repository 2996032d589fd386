"""The spool as the daemon's tasks see it: shared commits, and disks that take nothing."""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from edgesweep import envelope
from edgesweep.records import Kind
from edgesweep_agent.errors import SpoolError
from edgesweep_agent.spool.listing import Cursor
from edgesweep_agent.spool.outbox import GROUP_COUNT, Outbox
from spooling import (
    MIB,
    Disk,
    drained,
    events,
    heartbeat,
    keys,
    kinds,
    result,
    seal_event,
    telemetry,
    told,
)

pytestmark = pytest.mark.anyio
CASES = Path(__file__).parents[1] / "fixtures/cases/spool.json"
SPL_02 = next(case for case in json.loads(CASES.read_text()) if case["id"] == "SPL-02")


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def spool(tmp_path, disk):
    spool = disk.open(tmp_path / "spool.db")
    yield spool
    spool.close()


class Failing:
    """A file whose commits fail: ``errors`` says with what, ``None`` lets them through."""

    def __init__(self, spool):
        self.error = None
        self._database = spool._file.store.database
        self._run = self._database.run
        self._database.run = self.run

    def run(self, sql, values=()):
        if self.error is not None and sql == "COMMIT":
            raise self._database._told(sqlite3.OperationalError(self.error))
        return self._run(sql, values)


async def no_time(_seconds):
    await anyio.lowlevel.checkpoint()


def commits(spool, monkeypatch):
    """How many commits the file has seen since."""
    counted = []
    append = spool._file.store.append
    monkeypatch.setattr(
        spool._file.store, "append", lambda entries: counted.append(len(entries)) or append(entries)
    )
    return counted


async def test_puts_at_the_same_time_share_a_commit(spool, monkeypatch):
    outbox, counted = Outbox(spool), commits(spool, monkeypatch)
    found = []

    async def put():
        found.append(await outbox.put(*result()))

    async with anyio.create_task_group() as tasks:
        for _ in range(30):
            tasks.start_soon(put)
    assert sorted(found) == [(7, n) for n in range(1, 31)]
    assert sum(counted) == 30
    assert len(counted) <= 4


async def test_what_nobody_waits_for_is_committed_in_groups(spool, monkeypatch):
    outbox, counted = Outbox(spool), commits(spool, monkeypatch)
    for _ in range(GROUP_COUNT * 2 + 1):
        await outbox.later(*telemetry())
    assert counted == [GROUP_COUNT, GROUP_COUNT]
    await outbox.put(*result())
    assert counted[2:] == [2]


async def test_and_after_two_seconds_and_at_the_end(spool, monkeypatch):
    outbox, counted = Outbox(spool), commits(spool, monkeypatch)
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        await anyio.sleep(0.01 if len(slept) < 4 else 60)

    outbox.sleep = sleep
    await outbox.later(*telemetry())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.keep, seal_event)
        while len(slept) < 4:
            await anyio.sleep(0.01)
        assert (counted, set(slept)) == ([1], {2.0})
        await outbox.later(*heartbeat())
        tasks.cancel_scope.cancel()
    assert counted == [1, 1]
    assert kinds(spool) == ["heartbeat", "telemetry"]


async def test_a_seal_that_fails_is_its_own_callers_trouble(spool):
    def broken(_epoch, _seq):
        raise ValueError("this one")

    outbox, failed = Outbox(spool), []

    async def put(entry):
        try:
            await outbox.put(*entry)
        except ValueError as error:
            failed.append(str(error))

    async with anyio.create_task_group() as tasks:
        for entry in (result(), (Kind.LEVEL, broken), result()):
            tasks.start_soon(put, entry)
    assert failed == ["this one"]
    assert len(keys(spool)) == 2


async def test_a_caller_that_is_cancelled_takes_nothing_from_the_others(spool):
    outbox = Outbox(spool)

    async def put():
        await outbox.put(*result())

    for _ in range(20):
        async with anyio.create_task_group() as others, anyio.create_task_group() as gone:
            for tasks in (gone, others, gone, others):
                tasks.start_soon(put)
            await anyio.lowlevel.checkpoint()
            gone.cancel_scope.cancel()
    await outbox.put(*result())
    assert len(keys(spool)) >= 41
    assert [seq for _, seq in keys(spool)] == list(range(1, len(keys(spool)) + 1))


async def test_a_result_that_has_no_room_is_refused_at_once(tmp_path, disk):
    spool = disk.open(tmp_path / "small.db", max_bytes=MIB)
    outbox = Outbox(spool)
    stored = 0
    while not spool.trouble:
        stored += 1
        with contextlib.suppress(SpoolError):
            await outbox.put(*result(20_000))
    with pytest.raises(SpoolError, match=r"spool\.max_size"):
        await outbox.put(*result(20_000))
    assert 40 < stored < 53
    for _ in range(GROUP_COUNT):
        await outbox.later(*telemetry())
    status = spool.status()
    assert status.dropped == {"telemetry": GROUP_COUNT}
    assert status.refused == 2 + GROUP_COUNT
    spool.close()


async def test_spl_02_a_full_disk(spool, caplog):
    """Of a hundred records none is lost in silence, and nothing has to be started again."""
    caplog.set_level(logging.INFO)
    outbox, file = Outbox(spool, sleep=no_time), Failing(spool)
    refused = 0

    async def make(first, last):
        nonlocal refused
        for n in range(first, last + 1):
            if n % 3:
                await outbox.later(*telemetry())
                continue
            try:
                await outbox.put(*result())
            except SpoolError:
                refused += 1
        await outbox._commit()

    expected = SPL_02["expected"]
    await make(1, 50)
    assert len(keys(spool)) == expected["stored_before"]
    file.error = "database or disk is full"
    await make(51, 80)
    assert "full" in spool.trouble
    assert refused == 10  # whoever made them was told, and keeps them
    file.error = None
    await make(81, 100)
    assert spool.trouble == ""
    spool.tend()
    sent = drained(spool)
    status = spool.status()
    dropped = sum(status.dropped.values())
    assert len(sent) + dropped + refused == expected["produced"]
    assert len(set(sent)) == len(sent)
    assert status.rows == expected["rows_left_after_drain"]
    assert sum("spool" in one.message for one in caplog.records) <= 2
    assert sum(sum(one.by_kind.values()) for one in told(spool)) == dropped


async def test_memory_is_bounded_by_the_same_precedence_and_what_it_drops_is_told(spool):
    outbox, file = Outbox(spool, sleep=no_time), Failing(spool)
    file.error = "disk I/O error"
    for _ in range(40):
        for _ in range(100):
            await outbox.later(*telemetry(60))
        await outbox.later(*heartbeat())
        await outbox.later(*result())
    await outbox._commit()
    waiting = kinds(spool)
    assert waiting.count("event") == 40
    assert waiting.count("heartbeat") == 1
    assert 1000 < waiting.count("telemetry") < 3000
    assert spool.status().bytes < 4 * MIB
    file.error = None
    for _ in range(40):
        spool.tend()
    assert kinds(spool) == waiting
    assert {epoch for epoch, _ in keys(spool)} == {8}
    dropped = told(spool)
    assert sum(one.by_kind.get("telemetry", 0) for one in dropped) == 4000 - waiting.count(
        "telemetry"
    )
    gone = {(one.epoch, n) for one in dropped for a, b in one.ranges for n in range(a, b + 1)}
    sent = set(drained(spool))
    assert {(8, n) for n in range(1, 4081)} <= gone | sent
    assert not gone & sent


async def test_what_was_delivered_is_deleted_on_a_full_disk_with_the_ballast(tmp_path, disk):
    disk.free = 500 * MIB
    spool = disk.open(tmp_path / "b.db", min_free_bytes=0)
    spool.append([telemetry()] * 10)
    ballast = tmp_path / "b.db.ballast"
    assert ballast.stat().st_blocks * 512 >= MIB
    file = Failing(spool)
    file.error = "database or disk is full"
    flush = spool._file.store.flush
    gave_up = []

    def once_there_is_room():
        gave_up.append(not ballast.exists())
        file.error = None
        flush()

    spool._file.store.flush = once_there_is_room
    spool.settle([(7, n) for n in range(1, 6)], [], "")
    assert spool.append([result()]) == [(7, 11)]
    assert gave_up == [True]
    spool._file.store.flush = flush
    spool.tend()
    assert ballast.exists()
    assert len(keys(spool)) == 6
    spool.close()


async def test_a_disk_that_does_not_work_is_waited_for_in_memory(tmp_path, disk):
    path = tmp_path / "spool.db"
    before = disk.open(path)
    before.append([result()])
    before.close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    spool = disk.open(path)
    assert "locked" in spool.trouble
    outbox = Outbox(spool, sleep=no_time)
    for _ in range(GROUP_COUNT):
        await outbox.later(*telemetry())
    with pytest.raises(SpoolError, match=r"spool\.path"):
        await outbox.put(*result())
    assert spool.is_finished("any")
    parcels = await outbox.head(100)
    assert len(parcels) == GROUP_COUNT
    await outbox.settle([parcel.key for parcel in parcels[:60]], [], "")
    assert spool.status().rows == 4
    assert envelope.decode(parcels[0].data).epoch == spool.epoch == 8
    holder.close()
    spool.tend()
    assert spool.trouble != ""  # not yet: it is tried twice a minute
    disk.now_s += 31
    spool.tend()
    assert (spool.trouble, spool.epoch) == ("", 7)
    assert keys(spool) == [(7, 1), *((8, n) for n in range(61, 65))]
    assert await outbox.put(*result()) == (7, 2)
    spool.close()


async def test_what_is_in_memory_at_the_end_goes_to_the_disk_if_it_can(tmp_path, disk, spool):
    outbox, file = Outbox(spool, sleep=no_time), Failing(spool)
    file.error = "database or disk is full"
    for _ in range(GROUP_COUNT):
        await outbox.later(*telemetry())
    file.error = None
    spool.close()
    again = disk.open(tmp_path / "spool.db")
    assert len(keys(again)) == GROUP_COUNT
    again.close()
    spool.__init__(again._file, lambda: 1, lambda: 0.0)


async def test_a_live_spool_is_read_in_portions(spool):
    outbox = Outbox(spool)
    await outbox.put(*result())
    for _ in range(300):
        await outbox.later(*telemetry())
    await outbox.put(*result())
    await outbox.settle([(7, 1)], [], "")
    found, cursor = [], Cursor()
    while cursor is not None:
        envelopes, cursor = await outbox.run(spool.portion, cursor)
        assert len(envelopes) <= 64
        found += [envelope.decode(one).seq for one in envelopes]
    assert found == [302, *range(2, 302)]


async def test_the_word_of_what_was_dropped_goes_with_the_rest(spool):
    outbox = Outbox(spool, sleep=no_time)
    await outbox.later(*heartbeat())
    await outbox.later(*heartbeat())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.keep, seal_event)
        with anyio.fail_after(10):
            while not await outbox.run(events, spool, "records_dropped"):
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
