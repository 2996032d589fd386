"""Retention: what has its time is removed in chunks, and leaves neither gaps nor dangling rows."""

from __future__ import annotations

import threading

import pytest

import wire
from edgesweep.records import Birth, Event, Heartbeat, SensorValue, Telemetry
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.archive.rows import Kept

DAY = 86400 * 10**9
NOW = wire.MADE_NS
READING = Telemetry((SensorValue("power", "W", 1.0),))


def came(record, seq, days_ago, **fields):
    at = NOW - round(days_ago * DAY)
    return wire.received(record, seq, received_ns=at, wall_ns=at, **fields)


def counts(archive):
    with archive._read() as connection:
        tables = ("envelopes", "telemetry", "waiting")
        return [
            connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar() for name in tables
        ]


def filled(archive, rows=1200, readings=READING):
    kept = [
        came(Birth(wire.DEVICE, 1, 1), 1, 200),
        came(wire.level(1), 2, 200),
        came(wire.run(), 3, 200),
        came(Event("a", "b"), 4, 200),
    ]
    archive.append(kept)
    for start in range(0, rows, 100):
        archive.append([came(readings, 5 + n, 100) for n in range(start, start + 100)])
    archive.append([came(Heartbeat(n, 0, 0), 2000 + n, 40) for n in range(50)])
    archive.append([came(READING, 3000, 89), came(Heartbeat(9, 0, 0), 3001, 29)])


def test_readings_and_heartbeats_go_and_everything_else_stays(either_archive):
    archive = either_archive
    filled(archive)
    before = archive.gaps()
    assert archive.prune(NOW, 90 * DAY, 30 * DAY) == {"telemetry": 1200, "heartbeat": 50}
    assert counts(archive) == [6, 1, 0]
    assert archive.counts_by_kind() == {
        "birth": 1, "event": 1, "heartbeat": 1, "level": 1, "run": 1, "telemetry": 1,
    }  # fmt: skip
    assert archive.gaps() == before
    assert archive.missing() == {"n97-01": 1999 - 1204 + 2999 - 2049}
    assert archive.prune(NOW, 90 * DAY, 30 * DAY) == {"telemetry": 0, "heartbeat": 0}
    archive.rebuild()
    (device,) = archive.devices()
    assert device.first_seen_ns == NOW - 200 * DAY
    assert device.telemetry == READING


def test_the_last_of_a_device_stays_however_old(either_archive):
    archive = either_archive
    archive.append([came(READING, n, 300 - n) for n in range(1, 4)])
    archive.append([came(Heartbeat(1, 0, 0), 4, 200), came(Heartbeat(2, 0, 0), 5, 200)])
    assert archive.prune(NOW, DAY, DAY) == {"telemetry": 2, "heartbeat": 1}
    (device,) = archive.devices()
    assert (device.telemetry, device.heartbeat.uptime_s) == (READING, 2)


def test_a_cursor_goes_on_where_it_was(either_archive):
    archive = either_archive
    filled(archive, 200)
    archive.set_cursor("influx_telemetry", 50)
    archive.prune(NOW, 90 * DAY, 30 * DAY)
    (left,) = archive.telemetry_after(archive.cursor("influx_telemetry"), 99)
    archive.append([came(READING, 4000, 0)])
    (late,) = archive.telemetry_after(left.row_id, 99)
    assert late.row_id > left.row_id


def test_what_was_removed_and_is_sent_again_is_taken_again(either_archive):
    archive = either_archive
    old = came(READING, 1, 100)
    archive.append([old, came(READING, 2, 1)])
    archive.prune(NOW, 90 * DAY, 30 * DAY)
    assert archive.append([old]) == [Kept.STORED]


def test_what_waits_for_a_clock_goes_with_its_wait(either_archive):
    archive = either_archive
    waiting = [
        wire.received(READING, n, received_ns=NOW - 100 * DAY, wall_ns=5, boot_id="lost")
        for n in range(1, 4)
    ]
    archive.append([*waiting, came(READING, 4, 0)])
    assert counts(archive) == [4, 4, 3]
    archive.prune(NOW, 90 * DAY, 30 * DAY)
    assert counts(archive) == [1, 1, 0]
    assert archive.settle_clocks(NOW) == 0


def test_the_file_of_an_sqlite_archive_becomes_smaller(tmp_path):
    path = tmp_path / "archive.db"
    archive = Archive.open(f"sqlite:///{path}")
    readings = Telemetry(tuple(SensorValue(f"rail_{n}", "W", 1.0) for n in range(100)))
    filled(archive, 3000, readings)
    archive.close()
    before = path.stat().st_size
    archive = Archive.open(f"sqlite:///{path}")
    archive.prune(NOW, 90 * DAY, 30 * DAY)
    archive.close()
    assert path.stat().st_size < before / 4


@pytest.mark.parametrize("appends", [20])
def test_ingest_goes_on_meanwhile(either_archive, appends):
    archive = either_archive
    filled(archive, 2000)
    pruning = threading.Thread(target=archive.prune, args=(NOW, 90 * DAY, 30 * DAY))
    pruning.start()
    for n in range(appends):
        assert archive.append([came(READING, 5000 + n, 0)]) == [Kept.STORED]
    pruning.join()
    assert archive.counts_by_kind()["telemetry"] == 1 + appends
