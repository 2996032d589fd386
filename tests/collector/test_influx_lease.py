"""Several collectors on one archive: one of them projects, and no cursor moves by a late writer."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import pytest

import wire
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.errors import ArchiveUnavailable
from edgesweep_collector.projection.base import Unavailable
from edgesweep_collector.projection.follow import Follower, Pace
from edgesweep_collector.projection.lease import TTL_S, Lease
from edgesweep_collector.projection.settle import State

pytestmark = pytest.mark.anyio


@dataclass
class Granting:
    """Leases in memory, as an archive gives them."""

    held: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)
    failing: bool = False

    def lease(self, name, holder, now_ns, ttl_ns):
        self.asked.append((holder, ttl_ns))
        if self.failing:
            raise ArchiveUnavailable("locked")
        owner, until_ns = self.held.get(name, ("", 0))
        if owner not in {"", holder} and now_ns < until_ns:
            return False
        self.held[name] = holder, now_ns + ttl_ns
        return True


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def ns(self):
        return round(self.now_s * 1e9)

    def s(self):
        return self.now_s


class Keeping:
    def __init__(self, *errors):
        self.errors = list(errors)
        self.lines = []
        self.before = lambda: None

    def write(self, lines):
        self.before()
        if self.errors:
            raise self.errors.pop(0)
        self.lines += lines


@pytest.fixture
def archive(tmp_path):
    made = Archive.open(f"sqlite:///{tmp_path / 'archive.db'}")
    made.append([wire.received(wire.level(n), n) for n in range(1, 7)])
    yield made
    made.close()


def lease_of(granting, clock, holder):
    return Lease(granting, "influx", holder, clock=clock.ns, monotonic=clock.s)


@asynccontextmanager
async def following(archive, writer, batch=6, **options):
    follower = Follower(archive, writer, name="influx", pace=Pace(batch, 0.01), **options)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.run)
        yield follower
        tasks.cancel_scope.cancel()


async def until(holds):
    with anyio.fail_after(20):
        while not holds():
            await anyio.sleep(0.01)


def test_a_lease_is_asked_for_once_in_a_third_of_its_term():
    granting, clock = Granting(), Clock()
    lease = lease_of(granting, clock, "a")
    assert all(lease() for _ in range(100))
    assert granting.asked == [("a", TTL_S * 10**9)]
    clock.now_s += TTL_S / 3
    assert lease()
    assert len(granting.asked) == 2


def test_another_one_gets_it_when_it_ran_out_and_the_first_one_notices():
    granting, clock = Granting(), Clock()
    first, second = lease_of(granting, clock, "a"), lease_of(granting, clock, "b")
    assert first()
    assert not second()
    clock.now_s += TTL_S + 1
    assert second()
    assert not first()
    clock.now_s += TTL_S + 1
    assert first()


def test_a_stop_in_good_order_lets_the_other_one_begin_at_once():
    granting, clock = Granting(), Clock()
    first, second = lease_of(granting, clock, "a"), lease_of(granting, clock, "b")
    assert first()
    second.release()
    assert not second()
    first.release()
    assert second()


async def test_without_the_lease_nothing_is_read_or_written(archive):
    reads, writer = [], Keeping()

    def read(_source, _after, _limit):
        reads.append(1)

    async with following(archive, writer, read=read, lease=lambda: False) as follower:
        await until(lambda: follower.status.standby)
        await anyio.sleep(0.1)
    assert (reads, writer.lines) == ([], [])
    assert (follower.status.state, follower.status.alarm) == (State.OK, "")


async def test_a_lost_lease_stops_it_before_the_next_write(archive):
    granting, clock = Granting(), Clock()
    writer = Keeping(Unavailable("503"))
    slept = []

    async def sleep(seconds):
        # While the server is away, we are held up for longer than our term.
        slept.append(seconds)
        clock.now_s += TTL_S + 1
        assert lease_of(granting, clock, "b")()
        await anyio.lowlevel.checkpoint()

    async with following(
        archive, writer, lease=lease_of(granting, clock, "a"), sleep=sleep
    ) as follower:
        await until(lambda: follower.status.standby)
    assert writer.lines == []
    assert archive.cursor("influx") == 0
    assert slept == [1.0]


async def test_a_long_wait_for_the_server_keeps_the_lease(archive):
    granting, clock = Granting(), Clock()
    writer = Keeping(Unavailable("503", 95.0))

    async def sleep(seconds):
        clock.now_s += seconds
        assert not lease_of(granting, clock, "b")()
        await anyio.lowlevel.checkpoint()

    async with following(archive, writer, lease=lease_of(granting, clock, "a"), sleep=sleep):
        await until(lambda: archive.cursor("influx") == 6)
    assert len(writer.lines) == 6
    assert clock.now_s == 1095.0


async def test_two_collectors_share_one_cursor_and_the_second_goes_on_where_the_first_was(archive):
    granting, clock = Granting(), Clock()
    one, two = Keeping(), Keeping()
    leases = [lease_of(granting, clock, holder) for holder in "ab"]
    async with following(archive, one, lease=leases[0]):
        await until(lambda: archive.cursor("influx") == 6)
        async with following(archive, two, lease=leases[1]) as waiting:
            await until(lambda: waiting.status.standby)
            assert two.lines == []
            archive.append([wire.received(wire.level(7), 7)])
            await until(lambda: archive.cursor("influx") == 7)
    async with following(archive, two, lease=leases[1]) as waiting:
        archive.append([wire.received(wire.level(8), 8)])
        await until(lambda: waiting.status.standby)
        clock.now_s += TTL_S + 1
        await until(lambda: archive.cursor("influx") == 8)
    assert (len(one.lines), len(two.lines)) == (7, 1)


async def test_an_archive_that_does_not_tell_of_the_lease_is_an_archive_that_is_down(archive):
    granting, clock = Granting(failing=True), Clock()
    seen = []

    async def sleep(_seconds):
        seen.append((follower.status.state, follower.status.alarm))
        granting.failing = len(seen) < 2
        await anyio.lowlevel.checkpoint()

    follower = Follower(
        archive,
        writer := Keeping(),
        name="influx",
        lease=lease_of(granting, clock, "a"),
        sleep=sleep,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.run)
        await until(lambda: archive.cursor("influx") == 6)
        tasks.cancel_scope.cancel()
    assert seen == [(State.UNAVAILABLE, "archive")] * 2
    assert len(writer.lines) == 6


@pytest.mark.parametrize(("moved_to", "written"), [(0, 12), (2, 10), (6, 6)])
async def test_a_cursor_that_was_moved_during_a_write_is_not_moved_by_the_late_one(
    archive, moved_to, written
):
    archive.set_cursor("influx", 1)
    archive.append([wire.received(wire.level(7), 7)])
    writer, held = Keeping(), []

    def once():
        if not held:
            held.append(1)
            archive.set_cursor("influx", moved_to)

    writer.before = once
    async with following(archive, writer, batch=5):
        await until(lambda: archive.cursor("influx") == 7)
    # Five lines at first, whose cursor is not taken; then from where it was moved to.
    assert len(writer.lines) == 5 + 7 - moved_to
    assert len(writer.lines) == written


def test_a_cursor_moves_only_from_where_it_was_expected(either_archive):
    assert either_archive.set_cursor("influx", 3, expected=0)
    assert not either_archive.set_cursor("influx", 2, expected=0)
    assert either_archive.cursor("influx") == 3
    assert either_archive.set_cursor("influx", 1)
    assert either_archive.cursor("influx") == 1


def test_the_archives_own_leases_pass_from_one_to_the_other(either_archive):
    clock = Clock()
    first, second = lease_of(either_archive, clock, "a"), lease_of(either_archive, clock, "b")
    assert first()
    assert not second()
    first.release()
    assert second()
    assert not first()
    clock.now_s += TTL_S + 1
    assert first()
    assert not second()
