"""Backups and what a technician carries: everything comes back, once, on either database."""

from __future__ import annotations

import io
import json

import pytest

import wire
from edgesweep import carried, events
from edgesweep.carried import HEAD, Carried
from edgesweep.events import Dropped
from edgesweep.records import Birth, Event, Heartbeat, RunState, SensorValue, Telemetry
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.archive.rows import Kept
from edgesweep_collector.cli.commands import PROGRAM
from postgres import needs_postgres
from programs import invoke

DAY = 86400 * 10**9
NOW = wire.MADE_NS
READING = Telemetry((SensorValue("power", "W", 1.0),))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def other_url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'other.db'}"
    server = request.getfixturevalue("postgres")
    return server.url(server.new_database())


def command(tmp_path, url, *words):
    config = tmp_path / "collector.toml"
    config.write_text(f'[archive]\nurl = "{url}"\n')
    arguments = [*map(str, words), "--config", str(config)]
    return invoke(PROGRAM.run, arguments)


def filled(archive):
    """Every kind, a gap, drops, a record that waits, one that cannot be read, and removed ones."""
    early = {"wall_ns": 5, "mono_ns": 9 * 10**9, "boot_id": "early"}
    dropped = events.records_dropped(Dropped(wire.EPOCH, ((50, 59),), {}, "full"))
    old = {"received_ns": NOW - 100 * DAY}
    archive.append([wire.received(READING, n, **old) for n in range(10, 20)])
    archive.append(
        [
            wire.received(Birth(wire.DEVICE, 1, 1), 1),
            wire.received(wire.level(1), 2),
            wire.received(wire.run(), 3),
            wire.received(wire.run(state=RunState.COMPLETE, ended_wall_ns=9), 4),
            wire.received(Heartbeat(1, 2, 3), 5),
            wire.received(READING, 6),
            wire.received(dropped, 60),
            wire.received(READING, 70, **early),
            wire.received(wire.level(2), 71, **early),
            wire.received(wire.level(1), 72, payload=b"\xff"),
            wire.received(wire.level(1), 7),
            wire.received(Event("a", "b"), 1, epoch=9, device_id="n97-02"),
        ]
    )
    archive.settle_clocks(NOW + DAY)
    archive.append([wire.received(READING, 73, **early, received_ns=NOW)])
    archive.prune(NOW, 90 * DAY, 30 * DAY)


def all_of(archive):
    """What an archive says, but for the numbers that are its own."""
    query = """SELECT device_id, epoch, seq, kind, received_ns, transport, decoded, error, raw,
        effective_wall_ns, time_source, clock FROM envelopes ORDER BY device_id, epoch, seq"""
    with archive._read() as connection:
        rows = [tuple(row) for row in connection.exec_driver_sql(query)]
    lines = [
        (one.tie, one.effective_wall_ns, one.level if hasattr(one, "level") else one.telemetry)
        for one in (*archive.levels_after(0, 99), *archive.telemetry_after(0, 99))
    ]
    gaps = [(one.epoch, one.reconciled, [(s.first, s.last) for s in one.missing])
            for one in archive.gaps()]  # fmt: skip
    return rows, lines, archive.runs(), gaps, archive.run("run-1")


def test_a_backup_restores_on_either_database(either_archive, database_url, other_url, tmp_path):
    filled(either_archive)
    file = tmp_path / "fleet.envelopes"
    done = command(tmp_path, database_url, "archive", "backup", file, "--json")
    assert json.loads(done.stdout)["envelopes"] == 13
    assert [path.name for path in tmp_path.glob("*.part")] == []

    done = command(tmp_path, other_url, "archive", "restore", file, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["stored"], told["duplicates"], told["problem"]) == (13, 0, None)
    other = Archive.open(other_url)
    assert all_of(other) == all_of(either_archive)
    assert other.missing() == either_archive.missing()
    (mine, theirs) = (archive.devices() for archive in (either_archive, other))
    assert [one.heartbeat for one in mine] == [one.heartbeat for one in theirs]

    done = command(tmp_path, other_url, "archive", "restore", file)
    assert (done.exit_code, done.stdout) == (0, "0 new; 13 already here\n")
    assert all_of(other) == all_of(either_archive)
    # What waited goes on to wait there.
    assert other.settle_clocks(NOW + DAY) == either_archive.settle_clocks(NOW + DAY) == 1
    assert all_of(other) == all_of(either_archive)
    other.close()


def test_into_an_archive_that_holds_some_of_it(either_archive, database_url, tmp_path):
    filled(either_archive)
    file = tmp_path / "fleet.envelopes"
    command(tmp_path, database_url, "archive", "backup", file)
    url = f"sqlite:///{tmp_path / 'partly.db'}"
    partly = Archive.open(url)
    held = [wire.received(wire.level(1), 2), wire.received(Event("other", ""), 3)]
    assert partly.append(held) == [Kept.STORED] * 2
    done = command(tmp_path, url, "archive", "restore", file)
    assert done.exit_code == 1
    expected = "11 new; 1 already here; 1 in conflict: others are archived under their numbers\n"
    assert done.stdout == expected
    partly.close()


def test_a_backup_that_was_cut_short_is_used_up_to_there(
    either_archive, database_url, other_url, tmp_path
):
    filled(either_archive)
    file = tmp_path / "fleet.envelopes"
    command(tmp_path, database_url, "archive", "backup", file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 2 // 3])
    done = command(tmp_path, other_url, "archive", "restore", file, "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == 1
    assert 0 < told["stored"] < 13
    assert "cut short in record" in told["problem"]
    assert "what came before is archived" in done.stderr
    file.write_bytes(whole)
    done = command(tmp_path, other_url, "archive", "restore", file, "--json")
    assert json.loads(done.stdout)["stored"] == 13 - told["stored"]
    file.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    assert "damaged at record" in command(tmp_path, other_url, "archive", "restore", file).stderr


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (b"", "it does not begin with edgesweep.envelopes/1"),
        (b"not such a file", "it does not begin with edgesweep.envelopes/1"),
        (HEAD, None),
        (HEAD + b"\xff" * 40, "are too many"),
    ],
)
def test_what_is_no_backup_is_said_to_be_none(tmp_path, made, problem):
    file = tmp_path / "file"
    file.write_bytes(made)
    url = f"sqlite:///{tmp_path / 'a.db'}"
    for words in (("archive", "restore"), ("ingest",)):
        done = command(tmp_path, url, *words, file)
        assert done.exit_code == (0 if problem is None else 1)
        assert problem is None or problem in done.stderr
    done = command(tmp_path, url, "ingest", tmp_path / "absent")
    assert (done.exit_code, "cannot read" in done.stderr) == (1, True)
    done = command(tmp_path, url, "archive", "backup", tmp_path / "no" / "folder")
    assert (done.exit_code, "there is no folder" in done.stderr) == (2, True)


def of(*envelopes, **fields):
    file = io.BytesIO()
    carried.write(file, [Carried(raw, **fields) for raw in envelopes])
    return file.getvalue()


def test_what_a_technician_carried_is_taken_in_as_from_the_network(either_archive, database_url,
                                                                   tmp_path):  # fmt: skip
    file = tmp_path / "press-07.envelopes"
    either_archive.append([wire.received(wire.level(2), 2), wire.received(wire.level(9), 9)])
    raws = [wire.raw(wire.level(n), n) for n in (1, 2, 3)]
    raws += [wire.damaged(wire.level(4), 4), b"\xff", wire.raw(wire.level(8), 9)]
    raws += [wire.raw(Event("a", "b"), 5, device_id="NOT ONE")]
    # What it says of times and transports is not believed: that is for backups.
    lying = {"received_ns": 5, "transport": "mqtt", "effective_wall_ns": 7, "time_source": "device"}
    file.write_bytes(of(*raws, **lying))
    done = command(tmp_path, database_url, "ingest", file, "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout) == {
        "file": str(file),
        "stored": 2,
        "duplicates": 1,
        "conflicts": 1,
        "rejected": {"crc": 1, "device_id": 1, "not_an_envelope": 1},
        "problem": None,
    }
    with either_archive._read() as connection:
        query = """SELECT seq, transport, time_source FROM envelopes
            WHERE transport = 'file' ORDER BY seq"""
        rows = [tuple(row) for row in connection.exec_driver_sql(query)]
    assert rows == [(1, "file", "device"), (3, "file", "device")]
    done = command(tmp_path, database_url, "ingest", file)
    assert done.stdout == (
        "0 new; 3 already here; 1 in conflict: others are archived under their numbers; "
        "3 refused (crc 1, device_id 1, not_an_envelope 1)\n"
    )


def test_a_backup_whose_words_are_nonsense_is_taken_as_far_as_it_goes(tmp_path):
    url = f"sqlite:///{tmp_path / 'a.db'}"
    file = tmp_path / "file"
    raw = wire.raw(wire.level(1), 1)
    strange = [
        {"received_ns": 2**64 - 1, "transport": "x" * 999, "time_source": "guess"},
        {"transport": "n\0", "effective_wall_ns": 9},
        {"transport": "archive"},
    ]
    written = io.BytesIO()
    carried.write(written, [Carried(raw, **fields) for fields in strange])
    file.write_bytes(written.getvalue())
    done = command(tmp_path, url, "archive", "restore", file, "--json")
    told = json.loads(done.stdout)
    assert (told["stored"], told["duplicates"], told["rejected"]) == (1, 1, {"not_an_envelope": 1})


def test_a_restored_archive_asks_for_nothing_that_retention_removed(
    either_archive, database_url, other_url, tmp_path
):
    filled(either_archive)
    file = tmp_path / "fleet.envelopes"
    command(tmp_path, database_url, "archive", "backup", file)
    command(tmp_path, other_url, "archive", "restore", file)
    other = Archive.open(other_url)
    (ask,) = other.gaps_to_ask({"n97-01"}, NOW + 3600 * 10**9)
    assert ask.ranges == ((8, 9), (20, 49), (61, 69))
    other.close()


def test_leases_are_held_by_one_and_run_out(either_archive):
    archive, s = either_archive, 10**9
    assert archive.lease("prune", "a", 100 * s, 30 * s)
    assert not archive.lease("prune", "b", 129 * s, 30 * s)
    assert archive.lease("influx", "b", 129 * s, 30 * s)
    assert archive.lease("prune", "a", 120 * s, 30 * s)
    assert not archive.lease("prune", "b", 149 * s, 30 * s)
    assert archive.lease("prune", "b", 150 * s, 30 * s)
    assert not archive.lease("prune", "a", 151 * s, 30 * s)
    assert archive.lease("prune", "b", 152 * s, 0)
    assert archive.lease("prune", "a", 152 * s, 30 * s)


def test_a_cursor_is_moved_only_from_where_it_was_expected(either_archive):
    archive = either_archive
    assert archive.set_cursor("influx", 5, expected=0)
    assert not archive.set_cursor("influx", 9, expected=4)
    assert archive.set_cursor("influx", 2)
    assert archive.set_cursor("influx", 3, expected=2)
    assert archive.cursor("influx") == 3
