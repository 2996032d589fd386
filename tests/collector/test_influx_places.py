"""No two records share a point, and a record has the same one from whichever archive it comes."""

from __future__ import annotations

import anyio
import pytest

import wire
from edgesweep import envelope as envelopes
from edgesweep.records import Birth, SensorValue, Telemetry
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.archive.rows import Received
from edgesweep_collector.core.clock import Fixed, TimeSource
from edgesweep_collector.projection import batch
from edgesweep_collector.projection.follow import Follower, Pace
from edgesweep_collector.projection.influx import InfluxWriter, Target
from influx import running_influx
from influx_rewrite import rewriting

pytestmark = pytest.mark.anyio
READINGS = Telemetry((SensorValue("power_vdd_in", "W", 9.0),))
SPOOLS = (wire.EPOCH, 5, 5 + 10**6, 2**63 - 1 - 10**6)


@pytest.fixture(scope="module")
def influx(tmp_path_factory):
    with running_influx(tmp_path_factory.mktemp("influx")) as server:
        yield server


@pytest.fixture
def archive(tmp_path):
    made = Archive.open(f"sqlite:///{tmp_path / 'archive.db'}")
    yield made
    made.close()


def records(epoch):
    """Of one spool, all at one instant: levels of one series, and telemetry."""
    made = [Birth(wire.DEVICE, 1, 1)]
    made += [wire.level(n, run_id=f"run-{epoch}") for n in range(1, 21)]
    return made + [READINGS] * 20


def filled(archive):
    for epoch in SPOOLS:
        archive.append(
            [wire.received(one, n, epoch=epoch) for n, one in enumerate(records(epoch), 1)]
        )


def lines(archive):
    """Of levels and of telemetry."""
    found = [read(archive, 0, 10_000) for read in (batch.levels, batch.telemetry)]
    return [[entry.text for entry in one.entries] for one in found]


async def test_records_of_one_instant_keep_their_points_whatever_spool_they_are_from(
    influx, archive
):
    filled(archive)
    with rewriting(influx.url) as rewrite:
        writer = InfluxWriter(Target(rewrite.url, "", influx.database))
        async with anyio.create_task_group() as tasks:
            for name, read in (("influx", batch.levels), ("influx_telemetry", batch.telemetry)):
                follower = Follower(archive, writer, name=name, read=read, pace=Pace(50, 0.02))
                tasks.start_soon(follower.run)
            with anyio.fail_after(20):
                while lines_left(archive):
                    await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
        writer.close()
    for table, field in (("level", "concurrency"), ("telemetry", "power_vdd_in_w")):
        (row,) = influx.rows(f'SELECT count("{field}") AS n FROM "edgesweep_{table}"')
        assert row["n"] == 20 * len(SPOOLS)
    assert len({row["key"] for row in influx.rows("SHOW SERIES")}) == 2 * len(SPOOLS)


def lines_left(archive):
    return any(
        read(archive, archive.cursor(name), 1)
        for name, read in (("influx", batch.levels), ("influx_telemetry", batch.telemetry))
    )


def test_a_restored_archive_writes_the_same_bytes(archive, tmp_path):
    filled(archive)
    other = Archive.open(f"sqlite:///{tmp_path / 'other.db'}")
    births, rest = [], []
    for one in archive.carried():
        if one.effective_wall_ns is None:
            continue
        envelope = envelopes.decode(one.envelope)
        fixed = Fixed(one.effective_wall_ns, TimeSource(one.time_source))
        restored = Received(
            one.envelope, envelope, one.received_ns, "file", fixed=fixed, is_live=False
        )
        (births if envelope.seq == 1 else rest).append(restored)
    # In another order, and so with other rows and other places for the cursor.
    other.append(births)
    for start in range(len(rest), 0, -7):
        other.append(rest[max(0, start - 7) : start])
    assert [row.row_id for row in other.levels_after(0, 9)] != [
        row.row_id for row in archive.levels_after(0, 9)
    ]
    for mine, theirs in zip(lines(archive), lines(other), strict=True):
        assert len(mine) == len(set(mine)) == 20 * len(SPOOLS)
        assert sorted(mine) == sorted(theirs)
    other.close()
