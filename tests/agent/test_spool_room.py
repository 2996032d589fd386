"""How much of the disk the spool takes, and what gives way to what."""

from __future__ import annotations

import pytest

from edgesweep_agent.core.room import Held, Limits, Rank, room_for
from edgesweep_agent.spool import Refused
from spooling import MIB, Disk, drained, heartbeat, keys, kinds, result, telemetry, told

LIMITS = Limits(max_bytes=1000, min_free_bytes=400, keep_delivered_bytes=100)
R, H, T = Rank.RESULT, Rank.HEARTBEAT, Rank.TELEMETRY


def held(used=0, spare=0, disk_free=None, delivered=0, telemetry=0):
    return Held(used, spare, disk_free, delivered, telemetry)


@pytest.mark.parametrize(
    ("rank", "size", "before", "admitted", "out"),
    [
        pytest.param(T, 100, held(), True, (0, 0), id="an empty spool"),
        pytest.param(T, 100, held(used=700, telemetry=700), True, (0, 0), id="up to four fifths"),
        pytest.param(T, 100, held(used=750, telemetry=700), True, (0, 50), id="oldest telemetry"),
        pytest.param(
            T,
            100,
            held(used=750, delivered=30, telemetry=700),
            True,
            (30, 20),
            id="delivered",
        ),
        pytest.param(T, 100, held(used=790, telemetry=20), False, (0, 0), id="or there is none"),
        pytest.param(H, 100, held(used=790), True, (0, 0), id="a heartbeat has a tenth more"),
        pytest.param(H, 100, held(used=850), False, (0, 0), id="and no more"),
        pytest.param(R, 100, held(used=900), True, (0, 0), id="a result has all"),
        pytest.param(R, 100, held(used=950, telemetry=200), True, (0, 50), id="telemetry gives"),
        pytest.param(R, 101, held(used=900), False, (0, 0), id="until its reserve is used"),
        pytest.param(T, 100, held(disk_free=500), True, (0, 0), id="free disk to the floor"),
        pytest.param(T, 100, held(disk_free=499), False, (0, 0), id="telemetry leaves min_free"),
        pytest.param(H, 100, held(disk_free=400), True, (0, 0), id="heartbeats three quarters"),
        pytest.param(H, 100, held(disk_free=399), False, (0, 0), id="and no less"),
        pytest.param(R, 100, held(disk_free=300), True, (0, 0), id="results half of it"),
        pytest.param(R, 100, held(disk_free=299), False, (0, 0), id="and no less than that"),
        pytest.param(T, 100, held(spare=100, disk_free=0), True, (0, 0), id="free inside"),
        pytest.param(
            T,
            100,
            held(spare=60, disk_free=0, telemetry=50),
            True,
            (0, 40),
            id="made free",
        ),
        pytest.param(
            R,
            100,
            held(disk_free=250, delivered=10, telemetry=200),
            True,
            (10, 40),
            id="for results",
        ),
    ],
)
def test_the_room_for_a_record(rank, size, before, admitted, out):
    room = room_for(size, rank, before, LIMITS)
    assert (room.admitted, (room.from_delivered, room.from_telemetry)) == (admitted, out)
    assert bool(room.reason) is not admitted


def test_a_refusal_says_what_is_full_and_what_to_do():
    full = room_for(5 * MIB, R, held(used=256 * MIB), Limits())
    assert "256 MiB wait, and results may use 256 MiB (spool.max_size)" in full.reason
    low = room_for(5 * MIB, R, held(disk_free=8 * MIB), Limits())
    assert low.reason == "the disk has 8.00 MiB left, which is spool.min_free: free some of it"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("max_size", "12 XB", "spool.max_size: '12 XB' is no size"),
        ("min_free", "much", "spool.min_free: 'much' is no size"),
        ("max_size", "100KiB", "spool.max_size: 100KiB is too little: 1.00 MiB is the least"),
    ],
)
def test_limits_of_a_configuration(key, value, says):
    wanted = {"max_size": "2MiB", "min_free": "0", "keep_delivered": "1MB"}
    assert Limits.parsed(**wanted) == Limits(2 * MIB, 0, 10**6)
    with pytest.raises(ValueError, match=says.replace(".", r"\.")):
        Limits.parsed(**wanted | {key: value})


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spool.db"


def fill(spool, entry, times):
    """Append in groups; how many had no room."""
    refused = 0
    for _ in range(times):
        refused += sum(isinstance(one, Refused) for one in spool.append([entry] * 16))
    return refused


def numbers(dropped):
    return {n for one in dropped for first, last in one.ranges for n in range(first, last + 1)}


def test_telemetry_drops_its_oldest_and_the_file_keeps_to_its_cap(path, disk):
    spool = disk.open(path, max_bytes=2 * MIB)
    assert fill(spool, telemetry(40), 200) == 0
    made = spool.status().next_seq - 1
    left = [seq for _, seq in keys(spool)]
    dropped = told(spool)
    assert left == list(range(left[0], made + 1))
    assert numbers(dropped) == set(range(1, left[0]))
    assert sum(one.by_kind["telemetry"] for one in dropped) == made - len(left)
    assert 1.4 * MIB < spool._file.store.database.used_bytes < 1.65 * MIB
    spool.close()
    assert path.stat().st_size < 2 * MIB


def test_results_push_telemetry_out_and_are_refused_when_only_results_are_left(path, disk):
    spool = disk.open(path, max_bytes=2 * MIB)
    fill(spool, telemetry(40), 120)
    spool.append([heartbeat()])
    assert fill(spool, result(3000), 20) == 0
    results = kinds(spool).count("event")
    assert results == 320
    refused = fill(spool, result(3000), 40)
    assert refused > 100
    assert "spool.max_size" in spool.trouble
    status = spool.status()
    assert status.refused == refused
    assert status.rows_by_kind["event"] == 320 + 640 - refused
    assert status.rows_by_kind.get("telemetry", 0) < 4  # together smaller than one result
    assert spool._file.store.database.used_bytes < 2.05 * MIB
    # What is refused has no number, so that nobody waits for it.
    assert len(drained(spool)) == status.rows
    assert spool.append([result()]) == [(7, status.next_seq)]
    assert spool.trouble == ""
    spool.close()


def test_what_the_archive_has_gives_way_before_what_it_lacks(path, disk):
    spool = disk.open(path, max_bytes=2 * MIB, keep_delivered_bytes=MIB)
    fill(spool, result(3000), 15)
    drained(spool)
    spool.tend()
    assert spool.status().delivered_bytes > 0.6 * MIB
    fill(spool, telemetry(40), 75)
    assert spool.status().dropped == {}
    assert spool.status().delivered_bytes < 0.6 * MIB
    spool.close()


def test_on_a_disk_that_others_fill_telemetry_goes_on_within_the_file(path, disk):
    disk.free = 500 * MIB
    spool = disk.open(path, min_free_bytes=64 * MIB)
    fill(spool, telemetry(40), 20)
    spool.append([result()])
    size, disk.free = path.stat().st_size, 60 * MIB
    assert fill(spool, telemetry(40), 20) == 0
    assert spool.append([result(2000)]) == [(7, 642)]
    assert spool.status().rows_by_kind["event"] == 2
    assert spool.status().dropped["telemetry"] > 250
    disk.free = 20 * MIB
    assert fill(spool, telemetry(40), 5) == 0
    outcomes = spool.append([result(100_000)])
    assert outcomes == [(7, spool.status().next_seq - 1)]  # telemetry made room
    spool._file.store.database.write_back()
    assert path.stat().st_size < size + 700 * 1024
    spool.close()


def test_a_spool_of_heartbeats_alone_stays_small(path, disk):
    spool = disk.open(path, max_bytes=2 * MIB)
    for n in range(300):
        spool.append([heartbeat(float(n))])
    assert spool.status().rows_by_kind == {"heartbeat": 1}
    (dropped,) = told(spool)
    assert dropped.ranges == ((1, 299),)
    spool.close()
    assert path.stat().st_size < 100_000


def test_many_ranges_are_told_in_portions(path, disk):
    spool = disk.open(path, max_bytes=2 * MIB)
    for _ in range(40):
        spool.append([heartbeat(), telemetry(3)] * 30)
    dropped = told(spool)
    assert len(dropped) == 3
    assert numbers(dropped) == set(range(1, 2399, 2))
    assert all(len(one.ranges) <= 500 for one in dropped)
    spool.close()
