from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from edgesweep.envelope import Ack, AckStatus
from edgesweep_collector.archive.rows import Ask
from edgesweep_collector.errors import ArchiveUnavailable
from edgesweep_collector.upkeep import Keep, Upkeep

pytestmark = pytest.mark.anyio
KEEP = Keep(telemetry_ns=7, heartbeats_ns=5, wait_for_clock_ns=3)


class Store:
    """Notes what is asked of it; ``ours`` are the leases that it gives."""

    def __init__(self, ours=("clocks", "prune"), asks=()):
        self.ours, self.asks, self.done, self.down = ours, list(asks), [], False

    def lease(self, name, holder, now_ns, ttl_ns):
        if self.down:
            raise ArchiveUnavailable("down")
        assert (holder, now_ns) == ("me", 100)
        return name in self.ours

    def settle_clocks(self, now_ns, wait_ns):
        self.done.append(("clocks", now_ns, wait_ns))
        return 0

    def prune(self, now_ns, keep_telemetry_ns, keep_heartbeats_ns):
        self.done.append(("prune", now_ns, keep_telemetry_ns, keep_heartbeats_ns))
        return {"telemetry": 1}

    def gaps_to_ask(self, device_ids, now_ns):
        self.done.append(("ask", sorted(device_ids), now_ns))
        return [one for one in self.asks if one.device_id in device_ids]


class Devices:
    def __init__(self, *heard):
        self._heard, self.told = heard, []

    def heard(self):
        return self._heard

    def tell(self, ack):
        self.told.append(ack)


def upkeep(store, devices=None, **more):
    return Upkeep(store, devices or Devices(), "me", KEEP, clock=lambda: 100, **more)


async def test_clocks_and_old_readings_are_the_work_of_whoever_has_the_lease():
    mine, theirs = Store(), Store(ours=())
    for store in (mine, theirs):
        await upkeep(store).settle_clocks()
        await upkeep(store).prune()
    assert mine.done == [("clocks", 100, 3), ("prune", 100, 7, 5)]
    assert theirs.done == []


async def test_a_device_that_is_reached_is_asked_for_what_is_missing():
    store = Store(asks=[Ask("a", 7, ((1, 3),)), Ask("b", 8, ((2, 2),))])
    devices = Devices("a", "c")
    await upkeep(store, devices).ask()
    assert devices.told == [Ack("a", 7, ((1, 3),), AckStatus.RESEND)]
    assert store.done == [("ask", ["a", "c"], 100)]


async def test_nobody_heard_costs_no_query():
    store = Store()
    await upkeep(store).ask()
    assert store.done == []


async def test_an_archive_that_is_down_only_puts_it_off():
    store, pauses = Store(), []
    store.down = True

    async def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) > 5:
            store.down = False
        await anyio.lowlevel.checkpoint()

    with anyio.move_on_after(5) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(upkeep(store, sleep=sleep).run)
            while not store.done:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    assert not scope.cancelled_caught
    assert {5.0, 3600.0, 30.0} <= set(pauses)
