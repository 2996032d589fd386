"""InfluxDB is down for a day: it costs nothing but lag. Time is the test's own."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import anyio
import anyio.lowlevel
import psutil
import pytest

import wire
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.projection.base import Unavailable
from edgesweep_collector.projection.follow import Follower, Pace
from edgesweep_collector.projection.settle import State

pytestmark = pytest.mark.anyio
DAY_S = 24 * 3600.0
EVERY_S = 300.0
"""A level this often, on a device that never rests."""


@dataclass
class Away:
    """A server that is away until an instant, and counts who asks meanwhile."""

    until_s: float
    now_s: float = 0.0
    asked: int = 0

    def __post_init__(self):
        self.lines = []

    def write(self, lines):
        self.asked += 1
        if self.now_s < self.until_s:
            raise Unavailable("connection refused")
        self.lines += lines


async def test_a_day_without_influxdb_costs_nothing_but_lag(tmp_path):
    archive = Archive.open(f"sqlite:///{tmp_path / 'archive.db'}")
    server = Away(DAY_S)
    made = 0

    def ingest():
        """What arrives in the meantime: ingest never waits."""
        nonlocal made
        while made * EVERY_S < server.now_s:
            made += 1
            archive.append([wire.received(wire.level(made), made)])

    async def sleep(seconds):
        server.now_s += seconds
        await anyio.to_thread.run_sync(ingest)

    ingest()
    archive.append([wire.received(wire.level(10_000), 10_000)])
    follower = Follower(
        archive, server, name="influx", pace=Pace(poll_s=0.01), sleep=sleep, clock=lambda: 77
    )
    threads, size = threading.active_count(), psutil.Process().memory_info().rss
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.run)
        with anyio.fail_after(60):
            while server.now_s < DAY_S / 2:
                await anyio.sleep(0.01)
            assert follower.status.state is State.UNAVAILABLE
            assert follower.status.moved_ns == 0
            while archive.cursor("influx") < made + 1:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    # Once a minute, after a back-off at the beginning.
    assert 1400 < server.asked < 1500
    assert len(server.lines) == len(set(server.lines)) == made + 1
    assert (follower.status.dead_letters, follower.status.state) == (0, State.OK)
    assert follower.status.moved_ns == 77
    assert made >= DAY_S / EVERY_S
    assert threading.active_count() <= threads + 2
    assert psutil.Process().memory_info().rss - size < 64 * 2**20
    archive.close()
