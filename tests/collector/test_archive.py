"""The archive: what append returned for is there, whatever happens next."""

from __future__ import annotations

import sqlite3
import time

import pytest
from sqlalchemy import inspect

import wire
from edgesweep import envelope, events
from edgesweep.events import Dropped
from edgesweep.records import (
    Birth,
    Device,
    Event,
    Heartbeat,
    Kind,
    LevelStatus,
    RunState,
    SensorValue,
    Telemetry,
)
from edgesweep_collector.archive import schema
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.archive.migrations import MIGRATIONS
from edgesweep_collector.archive.rows import DeadLetter, Kept
from edgesweep_collector.errors import ArchiveUnavailable, ArchiveUnusable, SettingsError

STORED, DUPLICATE, CONFLICT = Kept.STORED, Kept.DUPLICATE, Kept.CONFLICT


@pytest.fixture
def archive(either_archive):
    return either_archive


@pytest.fixture
def path(tmp_path):
    return tmp_path / "made" / "with" / "parents" / "archive.db"


@pytest.fixture
def sqlite_archive(path):
    opened = Archive.open(f"sqlite:///{path}")
    yield opened
    opened.close()


def _rows(archive, query):
    with archive._read() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def test_a_duplicate_is_told_and_stored_once(archive):
    one, two = wire.received(wire.level(1), 1), wire.received(wire.level(2), 2)
    assert archive.append([one, two, one]) == [STORED, STORED, DUPLICATE]
    assert archive.append([two, wire.received(wire.level(3), 3)]) == [DUPLICATE, STORED]
    assert _rows(archive, "SELECT seq FROM envelopes ORDER BY row_id") == [(1,), (2,), (3,)]


def test_the_same_sequence_of_another_device_or_epoch_is_no_duplicate(archive):
    other = Device("n97-02")
    batch = [
        wire.received(wire.level(1), 1),
        wire.received(wire.level(2), 1, epoch=wire.EPOCH + 1),
        wire.received(wire.level(1, run_id="run-2", device=other), 1, device_id="n97-02"),
    ]
    assert archive.append(batch) == [STORED, STORED, STORED]


def test_the_bytes_are_kept_as_they_came(archive):
    # Field order and unknown fields are the sender's business: what came is what is kept.
    raw = wire.raw(wire.level(1), 1) + b"\xa8\x06\x01"
    came = wire.Received(raw, envelope.decode(raw), time.time_ns(), "mqtt")
    assert archive.append([came]) == [STORED]
    assert _rows(archive, "SELECT raw, transport FROM envelopes") == [(raw, "mqtt")]


def test_everything_is_there_after_a_restart(archive, database_url):
    archive.append([wire.received(wire.level(1), 1), wire.received(wire.run(), 2)])
    archive.close()
    again = Archive.open(database_url, create=False)
    assert again.append([wire.received(wire.level(1), 1)]) == [DUPLICATE]
    assert [row.level for row in again.levels("run-1")] == [wire.level(1)]
    assert again.run("run-1") == wire.run()
    again.close()


def test_levels_after_follows_the_rows_of_levels_alone(archive):
    archive.append(
        [
            wire.received(wire.level(1), 1),
            wire.received(Event("a", "b"), 2),
            wire.received(wire.level(2), 3),
            wire.received(wire.level(4), 4),
        ]
    )
    first = archive.levels_after(0, 2)
    assert [(row.row_id, row.level.concurrency) for row in first] == [(1, 1), (3, 2)]
    assert [row.row_id for row in archive.levels_after(3, 2)] == [4]
    assert archive.levels_after(4, 2) == []


def test_a_level_submitted_in_two_envelopes_counts_once(archive):
    again = wire.level(1, status=LevelStatus.FAILED)
    archive.append([wire.received(wire.level(1), 1), wire.received(again, 2)])
    assert [row.level for row in archive.levels("run-1")] == [wire.level(1)]
    assert archive.counts_by_kind() == {"level": 2}
    archive.append([wire.received(wire.level(1, attempt=2), 3)])
    assert len(archive.levels("run-1")) == 2


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_an_older_snapshot_never_replaces_a_newer(archive, order):
    snapshots = {
        1: wire.received(wire.run(), 1),
        2: wire.received(wire.run(state=RunState.COMPLETE, ended_wall_ns=9, n_levels=3), 2),
    }
    for seq in order:
        archive.append([snapshots[seq]])
    assert archive.run("run-1").state is RunState.COMPLETE
    (row,) = archive.runs()
    assert (row.state, row.ended_wall_ns, row.device_id) == (RunState.COMPLETE, 9, "n97-01")


def test_across_epochs_an_ended_run_stays_ended(archive):
    ended = wire.run(state=RunState.INTERRUPTED, ended_wall_ns=9)
    archive.append([wire.received(ended, 9)])
    archive.append([wire.received(wire.run(), 1, epoch=1)])
    assert archive.run("run-1").state is RunState.INTERRUPTED


def test_runs_are_listed_newest_first_and_by_device(archive):
    other = Device("n97-02")
    archive.append(
        [
            wire.received(wire.run("run-1"), 1),
            wire.received(wire.level(1), 2),
            wire.received(
                wire.run("run-2", device=other, started_wall_ns=7), 1, device_id="n97-02"
            ),
        ]
    )
    assert [(row.run_id, row.n_archived) for row in archive.runs()] == [("run-2", 0), ("run-1", 1)]
    assert [row.run_id for row in archive.runs("n97-01")] == ["run-1"]
    assert [row.run_id for row in archive.runs(limit=1)] == ["run-2"]
    assert archive.run("run-3") is None


def test_devices_say_what_they_last_said(archive):
    archive.append(
        [
            wire.received(Birth(wire.DEVICE, 1, 1), 1, received_ns=10),
            wire.received(Heartbeat(60.0, 2, 300), 3, received_ns=20),
            wire.received(Heartbeat(30.0, 1, 100), 2, received_ns=30),
        ]
    )
    (row,) = archive.devices()
    assert (row.first_seen_ns, row.last_seen_ns) == (10, 30)
    assert (row.device, row.heartbeat) == (wire.DEVICE, Heartbeat(60.0, 2, 300))
    assert row.agent_version == "0.1.0"


def test_one_device_cannot_write_into_the_run_of_another(archive):
    other = Device("n97-02")
    archive.append([wire.received(wire.level(1), 1), wire.received(wire.run(), 2)])
    forged = [
        wire.received(wire.level(2, device=other), 1, device_id="n97-02"),
        wire.received(wire.run(device=other, n_levels=9), 2, device_id="n97-02"),
        wire.received(wire.level(4), 3, device_id="n97-02"),
    ]
    assert archive.append(forged) == [STORED, STORED, STORED]
    assert [row.level.concurrency for row in archive.levels("run-1")] == [1]
    assert archive.run("run-1") == wire.run()
    errors = _rows(archive, "SELECT error FROM envelopes WHERE NOT decoded ORDER BY row_id")
    assert errors == [
        ("run run-1 belongs to device n97-01",),
        ("run run-1 belongs to device n97-01",),
        ("payload speaks for device 'n97-01'",),
    ]


def test_a_payload_that_does_not_decode_is_kept(archive):
    broken = wire.received(wire.level(1), 1, payload=b"\xff\xff\xff")
    telemetry = wire.received(wire.level(1), 2, kind=Kind.TELEMETRY)
    assert archive.append([broken, telemetry, wire.received(wire.level(2), 3)]) == [STORED] * 3
    rows = _rows(archive, "SELECT decoded, error <> '', raw FROM envelopes ORDER BY row_id")
    assert [row[:2] for row in rows] == [(0, 1), (0, 1), (1, 0)]
    assert rows[0][2] == broken.raw
    assert [row.level.concurrency for row in archive.levels_after(0, 9)] == [2]


def test_the_decoded_tables_can_be_rebuilt(archive):
    archive.append(
        [
            wire.received(Birth(wire.DEVICE, 1, 1), 1),
            wire.received(wire.level(1), 2),
            wire.received(wire.run(), 3),
            wire.received(Event("spool_quarantined", "set aside"), 4),
            wire.received(wire.level(1), 5, payload=b"\xff"),
            wire.received(wire.level(1), 6),
            wire.received(Heartbeat(1.0, 2, 3), 8),
            wire.received(Telemetry((SensorValue("power", "W", 1.0),)), 9),
            wire.received(events.records_dropped(Dropped(wire.EPOCH, ((7, 7),), {}, "full")), 10),
        ]
    )
    tables = sorted(schema.METADATA.tables)
    before = {name: sorted(_rows(archive, f"SELECT * FROM {name}")) for name in tables}
    archive.rebuild()
    assert {name: sorted(_rows(archive, f"SELECT * FROM {name}")) for name in tables} == before


def test_cursors_and_dead_letters_outlive_a_restart(archive, database_url):
    assert archive.cursor("influx") == 0
    archive.set_cursor("influx", 7)
    archive.set_cursor("influx", 5)
    archive.add_dead_letter("influx", 3, "level x=1", "type conflict", 99)
    archive.close()
    again = Archive.open(database_url)
    assert again.cursor("influx") == 5
    assert again.dead_letters("influx") == [DeadLetter(3, "level x=1", "type conflict", 99)]
    assert again.dead_letters("other") == []
    again.close()


def test_the_migrations_make_the_tables_of_the_schema(archive):
    made = inspect(archive._engine)
    for table in schema.METADATA.sorted_tables:
        columns = {column["name"]: column["nullable"] for column in made.get_columns(table.name)}
        wanted = {c.name: c.nullable for c in table.columns if not c.primary_key}
        assert {k: v for k, v in columns.items() if k in wanted} == wanted
        assert set(columns) == {c.name for c in table.columns}
    assert set(made.get_table_names()) == set(schema.METADATA.tables)


def test_an_archive_of_a_newer_version_is_left_alone(archive, database_url):
    with archive._write() as connection:
        connection.exec_driver_sql(f"INSERT INTO schema_version VALUES ({len(MIGRATIONS) + 1})")
    archive.close()
    with pytest.raises(ArchiveUnusable, match="newer collector"):
        Archive.open(database_url)


def test_what_is_no_archive_is_said_to_be_none(tmp_path):
    (tmp_path / "text").write_text("no database, and long enough to be taken for one" * 99)
    with pytest.raises(ArchiveUnusable, match="not a database"):
        Archive.open(f"sqlite:///{tmp_path / 'text'}")
    with pytest.raises(ArchiveUnusable, match="there is no archive"):
        Archive.open(f"sqlite:///{tmp_path / 'absent'}", create=False)
    for url in ("nonsense", "mysql://host/x", "sqlite://"):
        with pytest.raises(SettingsError, match=r"archive\.url"):
            Archive.open(url)


def test_commits_are_synced_and_readers_do_not_wait(sqlite_archive):
    archive = sqlite_archive
    with archive._read() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        archive.append([wire.received(wire.level(1), 1)])


def test_a_locked_archive_is_unavailable(sqlite_archive, path):
    archive = sqlite_archive
    archive._engine.dispose()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with archive._read() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout=10")
    with pytest.raises(ArchiveUnavailable, match="locked"):
        archive.append([wire.received(wire.level(1), 1)])
    holder.close()
    assert archive.append([wire.received(wire.level(1), 1)]) == [STORED]


def test_another_record_under_a_number_that_is_taken_is_no_duplicate(archive):
    """A spool restored from a copy counts once more from where the copy stood."""
    assert archive.append([wire.received(wire.level(1), 1)]) == [STORED]
    other = wire.received(wire.level(2), 1)
    assert archive.append([other, other]) == [CONFLICT, CONFLICT]
    assert len(archive.levels_after(0, 9)) == 1


def test_a_level_that_comes_in_a_second_envelope_is_noted(archive):
    """It is kept as it came, and does not take the place of the first."""
    again = [wire.received(wire.level(1), seq) for seq in (1, 2)]
    assert archive.append(again) == [STORED, STORED]
    assert archive.counts_by_kind() == {"level": 2}
    assert len(archive.levels_after(0, 9)) == 1
