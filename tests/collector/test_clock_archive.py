"""Effective times in the archive: fixed once, late ones above every cursor, on both databases."""

from __future__ import annotations

import json
from pathlib import Path

import wire
from edgesweep import events
from edgesweep.records import Birth, ClockQuality, Event, Heartbeat, Kind, SensorValue, Telemetry

CASES = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[1] / "fixtures/cases/spool.json").read_text())
}
S = 10**9
SYNC = 1_767_225_600
"""When SPL-03 has the clock set, at 45 s of uptime."""
UNSYNCED, SYNCED = ClockQuality.UNSYNCED, ClockQuality.SYNCED
READING = Telemetry((SensorValue("power", "W", 1.0),))


def made(uptime_s, record, seq, *, boot="boot-1", wall_s=None, late_s=1, clock=None, **fields):
    """A record as a device in SPL-03 makes it: in 1970 until it is synchronised at 45 s."""
    synced = uptime_s >= 45
    offset_s = SYNC - 45 if synced else 2
    return wire.received(
        record,
        seq,
        boot_id=boot,
        mono_ns=uptime_s * S,
        wall_ns=(uptime_s + offset_s if wall_s is None else wall_s) * S,
        clock=clock or (SYNCED if synced else UNSYNCED),
        received_ns=(SYNC - 45 + uptime_s + late_s) * S,
        **fields,
    )


def clock_set(seq, **fields):
    offset_ns = (SYNC - 45) * S
    return made(45, events.clock_set(offset_ns, offset_ns - 2 * S), seq, **fields)


def times(archive):
    query = "SELECT seq, effective_wall_ns, time_source FROM envelopes ORDER BY seq"
    with archive._read() as connection:
        return {
            row[0]: (row[1] and row[1] / S, row[2]) for row in connection.exec_driver_sql(query)
        }


def projected(archive, cursor=0):
    return [(one.row_id, one.effective_wall_ns // S) for one in archive.telemetry_after(cursor, 99)]


def test_spl_03_records_of_an_unset_clock_get_their_time_when_it_is_set(either_archive):
    """A was made in 1970, B after NTP had answered; neither is placed wrongly, or out of order."""
    archive, expected = either_archive, CASES["SPL-03"]["expected"]
    a = made(10, READING, 1)
    archive.append([a])
    assert projected(archive) == []
    archive.append([made(50, READING, 3)])
    assert projected(archive) == [(2, expected["B_epoch_s"])]
    archive.append([clock_set(2)])
    assert archive.settle_clocks(a.received_ns + 60 * S) == 1
    assert times(archive) == {
        1: (expected["A_epoch_s"], "clock_set"),
        2: (SYNC, "device"),
        3: (expected["B_epoch_s"], "device"),
    }
    # Above the cursor that has passed B, and with the order of the two in their times.
    assert projected(archive, 2) == [(4, expected["A_epoch_s"])]
    with archive._read() as connection:
        raws = connection.exec_driver_sql("SELECT raw FROM envelopes WHERE seq = 1").scalars()
        assert [bytes(raw) for raw in raws] == [a.raw]
    assert archive.settle_clocks(a.received_ns + 9999 * S) == 0


def test_in_one_group_the_clock_that_is_set_counts_at_once(either_archive):
    archive = either_archive
    archive.append([made(10, READING, 1), clock_set(2), made(20, READING, 3)])
    assert times(archive) == {
        1: (SYNC - 35, "clock_set"),
        2: (SYNC, "device"),
        3: (SYNC - 25, "clock_set"),
    }
    archive.append([made(30, READING, 4, late_s=500)])
    assert times(archive)[4] == (SYNC - 15, "clock_set")


def test_an_agent_that_sends_no_such_event_is_set_by_its_synchronised_records(either_archive):
    archive = either_archive
    archive.append([made(10, READING, 1)])
    archive.append([made(50, READING, 2)])
    assert archive.settle_clocks((SYNC + 60) * S) == 1
    assert times(archive)[1] == (SYNC - 35, "clock_set")


def test_a_clock_that_is_never_set_is_bounded_after_a_while(either_archive):
    archive = either_archive
    archive.append([made(10, READING, 1, late_s=300), made(30, READING, 2, late_s=2)])
    came_ns = (SYNC - 35 + 300) * S
    assert archive.settle_clocks(came_ns + 800 * S, 900 * S) == 1
    assert times(archive) == {1: (None, None), 2: (SYNC - 45 + 32, "received")}
    assert archive.settle_clocks(came_ns + 900 * S, 900 * S) == 1
    assert times(archive)[1] == (SYNC - 45 + 12, "bounded")
    # Later arrivals of that boot change nothing of what is fixed.
    archive.append([made(40, READING, 3, late_s=0)])
    archive.settle_clocks(came_ns + 9900 * S)
    assert times(archive)[1] == (SYNC - 45 + 12, "bounded")


def test_a_later_boot_ends_the_wait(either_archive):
    archive = either_archive
    archive.append([made(10, READING, 5, late_s=300), made(20, READING, 6, late_s=1)])
    # What is older, and comes later, is no later boot.
    archive.append([made(7, READING, 2, boot="boot-0", wall_s=SYNC - 1000, late_s=400)])
    now_ns = (SYNC + 400) * S
    assert archive.settle_clocks(now_ns) == 0
    archive.append([made(3, Birth(wire.DEVICE, 1, 3), 7, boot="boot-2", late_s=410)])
    assert archive.settle_clocks(now_ns) == 2
    assert times(archive)[5] == (SYNC - 45 + 11, "bounded")
    assert times(archive)[7] == (None, None)
    # A spool that was set aside: another epoch, heard later.
    archive.append([made(1, READING, 1, boot="boot-3", epoch=9, late_s=500)])
    assert archive.settle_clocks(now_ns) == 1


def test_levels_wait_as_well_and_are_shown_meanwhile(either_archive):
    archive = either_archive
    late = made(10, wire.level(1), 1)
    archive.append([late, made(50, wire.level(2), 2, boot="other")])
    assert [row.level.concurrency for row in archive.levels_after(0, 9)] == [2]
    (waiting, _) = archive.levels("run-1")
    assert (waiting.row_id, waiting.effective_wall_ns) == (0, late.received_ns)
    archive.append([clock_set(3)])
    archive.settle_clocks(late.received_ns)
    (fixed,) = archive.levels_after(2, 9)
    assert (fixed.level.concurrency, fixed.effective_wall_ns) == (1, (SYNC - 35) * S)
    assert fixed.tie == wire.EPOCH + 1


def test_many_that_waited_are_fixed_in_their_order(either_archive):
    archive = either_archive
    for start in range(1, 1201, 100):
        archive.append([made(1, READING, n) for n in range(start, start + 100)])
    archive.append([clock_set(1201)])
    assert archive.settle_clocks((SYNC + 60) * S) == 1200
    rows = archive.telemetry_after(0, 9999)
    assert [row.row_id for row in rows] == list(range(1202, 2402))


def test_a_clock_set_without_an_offset_is_kept_with_the_reason(either_archive):
    archive = either_archive
    archive.append([made(10, READING, 1), made(45, Event("clock_set", "", {}), 2, wall_s=47,
                                               clock=UNSYNCED)])  # fmt: skip
    assert archive.settle_clocks((SYNC + 60) * S) == 0
    with archive._read() as connection:
        query = "SELECT error FROM envelopes WHERE NOT decoded"
        assert connection.exec_driver_sql(query).scalars().all() == [
            "event clock_set has no offset_ns"
        ]


def test_skew_and_quality_of_the_clock_are_those_of_the_last_heartbeat(either_archive):
    archive = either_archive
    beat = Heartbeat(1.0, 0, 0, troubles={"uplink": "refused"})
    archive.append([made(20, beat, 1), made(60, beat, 2, late_s=3)])
    (row,) = archive.devices()
    assert (row.skew_ns, row.clock) == (3 * S, SYNCED)
    (told,) = archive.heartbeats(0)
    assert (told.received_ns - told.wall_ns, told.heartbeat) == (3 * S, beat)
    assert archive.heartbeats(told.received_ns + 1) == []


def test_hostile_names_of_boots_are_taken(either_archive):
    archive = either_archive
    boots = ["nul\0", "x" * 9000, "é", "\u202e", "boot"]
    batch = [made(9 + n, READING, 1 + n, boot=boot) for n, boot in enumerate(boots)]
    archive.append(batch)
    assert archive.settle_clocks((SYNC + 9999) * S) == len(boots)
    assert {source for _, source in times(archive).values()} == {"received"}


def test_replay_goes_back_to_an_effective_time(either_archive):
    archive = either_archive
    for received in (made(10, READING, 1), made(50, READING, 2), made(60, READING, 3, boot="b")):
        archive.append([received])
    archive.append([clock_set(4)])
    archive.settle_clocks((SYNC + 60) * S)
    assert projected(archive) == [(2, SYNC + 5), (3, SYNC + 15), (5, SYNC - 35)]
    assert archive.row_before(Kind.TELEMETRY, (SYNC + 6) * S) == 2
    assert archive.row_before(Kind.TELEMETRY, (SYNC - 35) * S) == 1
    assert archive.row_before(Kind.TELEMETRY, (SYNC + 600) * S) == 5
    backlog = archive.backlog(Kind.TELEMETRY, 2)
    assert (backlog.rows, backlog.oldest_ns) == (2, (SYNC - 45 + 61) * S)
    assert archive.backlog(Kind.TELEMETRY, 2, 3).rows == 1
    assert archive.backlog(Kind.LEVEL, 0).oldest_ns is None
