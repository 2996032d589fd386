"""Spool files that are damaged: the agent starts, saves what can be read, and tells the rest."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgesweep import envelope
from spooling import (
    MIB,
    Disk,
    drained,
    events,
    heartbeat,
    keys,
    result,
    seal_event,
    telemetry,
    told,
)

CASES = Path(__file__).parents[1] / "fixtures/cases/spool.json"
SPL_01 = next(case for case in json.loads(CASES.read_text()) if case["id"] == "SPL-01")
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
WRITER = """
import sys
from pathlib import Path
from spooling import Disk, result
spool = Disk().open(Path(sys.argv[1]))
while True:
    (key,) = spool.append([result(600)])
    print(key[1], flush=True)
"""


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spool.db"


def filled(path, disk, rows=100, size=600):
    spool = disk.open(path)
    for at in range(0, rows, 50):
        spool.append([result(size)] * min(50, rows - at))
    spool.close()


def quarantined(spool):
    """The word of the damage."""
    spool.tell(seal_event)
    return events(spool, "spool_quarantined")


def lost(spool):
    """The numbers that a collector is told to wait for no longer, by epoch."""
    found = {}
    for one in told(spool):
        assert one.reason == "damaged"
        found.setdefault(one.epoch, []).extend(one.ranges)
    return found


def numbers(ranges):
    return {n for first, last in ranges for n in range(first, last + 1)}


def test_spl_01_a_killed_writer_loses_nothing_that_was_committed(path, disk):
    expected = SPL_01["expected"]["a_kill9"]["records_after_restart"]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, env=ENV
    ) as writer:
        last = 0
        while last < expected:
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        last = max([last, *(int(line) for line in writer.stdout.read().split())])
    spool = disk.open(path)
    assert len(keys(spool)) >= last >= expected
    assert keys(spool) == [(7, n + 1) for n in range(len(keys(spool)))]
    assert (spool.epoch, spool.quarantined) == (7, None)
    spool.close()


def test_spl_01_b_a_lost_header(path, disk):
    filled(path, disk)
    data = path.read_bytes()
    path.write_bytes(bytes(100) + data[100:])
    began = time.monotonic()
    spool = disk.open(path)
    assert time.monotonic() - began < SPL_01["expected"]["b_header"]["starts_within_s"]
    new = spool.append([result()] * 5)
    assert new == [(8, n) for n in range(1, 6)]
    assert set(new) <= set(keys(spool))
    # Every row is more than its sensible minimum: nothing but the header is lost.
    assert [key for key in keys(spool) if key[0] == 7] == [(7, n) for n in range(1, 101)]
    (word,) = quarantined(spool)
    assert word.attributes["file"] == "spool.db.corrupt-1"
    assert word.attributes["salvaged"] == "100"
    assert word.attributes["bytes"] == str(len(data))
    assert spool.quarantined == path.with_name("spool.db.corrupt-1")
    assert lost(spool) == {}
    spool.close()


def test_spl_01_c_a_torn_tail(path, disk):
    filled(path, disk)
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size - 256)
    spool = disk.open(path)
    saved = {key[1] for key in keys(spool)}
    assert saved | numbers(lost(spool).get(7, [])) == set(range(1, 101))
    assert len(saved) >= 90
    spool.close()


@pytest.mark.parametrize(
    "left", [b"", b"hello", bytes(5000), b"SQLite format 3\0" + bytes(5000)], ids=range(4)
)
def test_a_file_of_which_nothing_is_left_is_told_by_the_mark(path, disk, left):
    filled(path, disk, rows=20)
    path.write_bytes(left)
    spool = disk.open(path)
    assert spool.append([result()]) == [(8, 1)]
    assert keys(spool) == [(8, 1)]
    assert lost(spool) == {7: [(1, 20)]}
    spool.close()


def test_a_spool_that_was_deleted_is_told(path, disk):
    filled(path, disk, rows=20)
    path.unlink()
    spool = disk.open(path)
    assert (spool.epoch, spool.quarantined) == (8, None)
    assert lost(spool) == {7: [(1, 20)]}
    spool.close()


def test_what_was_delivered_is_not_told_as_lost(path, disk):
    spool = disk.open(path)
    spool.append([telemetry()] * 50)
    spool.settle([(7, n) for n in range(1, 41)], [], "")
    spool.close()
    path.write_bytes(b"gone")
    again = disk.open(path)
    assert lost(again) == {7: [(41, 50)]}
    again.close()


@pytest.mark.parametrize("what", ["waiting", "refused"])
def test_a_flipped_bit_in_a_row_is_found_before_it_is_delivered(path, disk, what):
    """SQLite does not see it, and the envelope's own check covers its payload alone."""
    spool = disk.open(path)
    spool.append([result(100, name=f"name-{n:04}") for n in range(20)])
    if what == "refused":
        spool.settle([], [(7, 5)], "schema")
    spool.close()
    data = bytearray(path.read_bytes())
    at = data.index(b"name-0011")
    data[at - 40] ^= 1
    path.write_bytes(data)
    again = disk.open(path)
    assert again.quarantined is None
    left = keys(again)
    assert (7, 12) not in left
    assert len(left) == (19 if what == "waiting" else 18)
    assert "damaged on the disk" in {one.reason for one in again.rejected()}
    assert lost(again) == {7: [(12, 12)]}
    again.close()


def test_a_flipped_bit_in_a_fact_is_a_damaged_file(path, disk):
    filled(path, disk, rows=5)
    spool = disk.open(path, keep_delivered_bytes=0)
    spool.settle(keys(spool), [], "")
    spool.close()
    data = path.read_bytes()
    assert data.count(b"next6") == 1
    path.write_bytes(data.replace(b"next6", b"next2"))
    again = disk.open(path)
    assert again.quarantined is not None
    assert again.append([result()]) == [(8, 1)]
    again.close()


def test_tables_that_are_not_ours_are_set_aside(path, disk):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (x)")
    other.commit()
    other.close()
    spool = disk.open(path)
    assert spool.quarantined is not None
    assert spool.append([result()]) == [(7, 1)]
    spool.close()


def test_the_file_of_a_later_version_is_set_aside_and_its_rows_saved(path, disk):
    filled(path, disk, rows=30)
    later = sqlite3.connect(path)
    later.execute("PRAGMA user_version=9")
    later.close()
    spool = disk.open(path)
    assert spool.epoch == 8
    assert keys(spool) == [(7, n) for n in range(1, 31)]
    spool.close()


def test_damage_that_shows_while_it_runs_is_mended(path, disk):
    filled(path, disk, rows=400)
    spool = disk.open(path)
    # What was read at the start is in SQLite's memory no longer.
    spool._file.store.database.run("PRAGMA shrink_memory")
    with path.open("rb+") as file:
        for page in range(2, 400, 7):
            file.seek(page * 512)
            file.write(b"\x55" * 512)
    found = drained(spool)
    new = spool.append([result()])
    assert new == [(8, 1)]
    assert spool.quarantined is not None
    gone = numbers(lost(spool).get(7, []))
    assert {n for epoch, n in found if epoch == 7} | gone >= set(range(1, 401))
    spool.close()


def logged(path, disk, rows=30):
    """A spool whose log holds commits that its file lacks, as a kill leaves it."""
    spool = disk.open(path)
    for _ in range(rows):
        spool.append([result(300)])
    copy = {side: path.with_name(path.name + side).read_bytes() for side in ("", "-wal", ".lock")}
    spool.close()
    for side, data in copy.items():
        path.with_name(path.name + side).write_bytes(data)
    return path.with_name(path.name + "-wal")


def test_a_log_as_a_kill_leaves_it_is_none_of_a_damaged_file(path, disk):
    logged(path, disk)
    spool = disk.open(path)
    assert (spool.epoch, len(keys(spool))) == (7, 30)
    spool.close()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.9, 0.999])
def test_a_damaged_log_gives_no_number_out_twice(path, disk, share):
    """SQLite reads a log up to the damage, and says nothing."""
    log = logged(path, disk)
    data = bytearray(log.read_bytes())
    at = 8 if share == 0 else int(len(data) * share)
    data[at] ^= 4
    log.write_bytes(data)
    spool = disk.open(path)
    new = spool.append([result()])
    assert new == [(8, 1)]
    saved = {n for epoch, n in keys(spool) if epoch == 7}
    assert saved | numbers(lost(spool).get(7, [])) >= set(range(1, 31))
    assert len(saved) >= 28
    for parcel in spool.head(1000):
        made = envelope.decode(parcel.data)
        assert (made.epoch, made.seq) == parcel.key
    spool.close()


def test_a_log_without_its_database_is_read(path, disk):
    logged(path, disk)
    path.write_bytes(b"")
    spool = disk.open(path)
    assert {n for epoch, n in keys(spool) if epoch == 7} == set(range(1, 31))
    spool.close()


def test_a_spool_that_another_program_holds_waits_in_memory(path, disk):
    filled(path, disk, rows=3)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    spool = disk.open(path)
    assert "is another program using it?" in spool.trouble
    holder.close()
    disk.now_s += 31
    spool.tend()
    assert (spool.trouble, spool.quarantined, spool.epoch) == ("", None, 7)
    assert keys(spool) == [(7, 1), (7, 2), (7, 3)]
    spool.close()


def test_a_large_file_is_saved_in_steps_beside_everything_else(path, disk, monkeypatch):
    monkeypatch.setattr("edgesweep_agent.spool.file.OPENING_S", -1.0)
    filled(path, disk, rows=2500, size=1500)
    with path.open("rb+") as file:
        file.seek(20)
        file.write(b"\xff" * 8)
    spool = disk.open(path)
    assert keys(spool) == []
    assert spool.append([result()]) == [(8, 1)]
    assert spool.tend()
    part = len(keys(spool))
    assert 1 < part < 2501
    spool.close()
    again = disk.open(path)  # an agent that was restarted goes on where it was
    while again.tend():
        pass
    assert len(keys(again)) == 2501
    (word,) = quarantined(again)
    assert word.attributes["salvaged"] == "2500"
    assert lost(again) == {}
    again.close()


def test_rows_of_an_older_epoch_are_delivered_as_they_are(path, disk):
    filled(path, disk, rows=3)
    data = path.read_bytes()
    path.write_bytes(bytes(100) + data[100:])
    spool = disk.open(path)
    spool.append([result(), heartbeat(), telemetry()])
    assert keys(spool) == [(7, 1), (7, 2), (7, 3), (8, 1), (8, 2), (8, 3)]
    assert [envelope.decode(one.data).epoch for one in spool.head(9)] == [7, 7, 7, 8, 8, 8]
    spool.settle([(7, 2)], [(7, 3)], "schema")
    spool.close()
    again = disk.open(path)
    assert keys(again) == [(7, 1), (8, 1), (8, 2), (8, 3)]
    assert again.requeue() == 1
    assert again.resend(7, ((1, 3),)) == ()
    assert drained(again)[:3] == [(7, 1), (7, 2), (7, 3)]
    again.close()


def test_of_many_damaged_files_the_newest_stay(path, disk):
    for _ in range(5):
        filled(path, disk, rows=1)
        path.write_bytes(b"gone")
    disk.open(path).close()
    asides = sorted(one.name for one in path.parent.glob("*.corrupt-*"))
    assert asides == ["spool.db.corrupt-3", "spool.db.corrupt-4", "spool.db.corrupt-5"]


@pytest.mark.alone
def test_a_spool_of_256_mib_opens_in_less_than_5_s(path, disk):
    spool = disk.open(path, max_bytes=1024 * MIB)
    entries = [result(3000)] * 1000
    while path.stat().st_size < 256 * MIB:
        spool.append(entries)
    spool.close()
    began = time.monotonic()
    disk.open(path).close()
    whole_s = time.monotonic() - began
    with path.open("rb+") as file:
        file.seek(20)
        file.write(b"\xff" * 8)
    disk.clock = time.monotonic
    began = time.monotonic()
    spool = disk.open(path)
    damaged_s = time.monotonic() - began
    assert (whole_s < 5, damaged_s < 5) == (True, True), (whole_s, damaged_s)
    assert spool.append([result()])
    spool.close()
