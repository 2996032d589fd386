"""A spool that an agent of 0.1 left: ``fixtures/spool/0.1.db.gz`` is one that it made.

Of nineteen records it had delivered the first and the third, the collector had refused the
second, and of six heartbeats the last was left. A plan had finished, and it had started twice.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from edgesweep import envelope
from spooling import Disk, drained, keys, kinds, result, seal_event, telemetry

OLD = Path(__file__).parents[1] / "fixtures/spool/0.1.db.gz"
EPOCH = 0x1122334455667788
EVENTS = [(EPOCH, seq) for seq in (5, 8, 11, 14, 17)]
TELEMETRY = [(EPOCH, seq) for seq in (6, 9, 12, 15, 18)]
HEARTBEAT = [(EPOCH, 19)]


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "spool.db"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    return path


def test_an_agent_that_was_upgraded_finds_its_rows_again(path, disk):
    spool = disk.open(path)
    assert (spool.epoch, spool.quarantined) == (EPOCH, None)
    assert keys(spool) == EVENTS + HEARTBEAT + TELEMETRY
    for parcel in spool.head(99):
        made = envelope.decode(parcel.data)
        assert (made.epoch, made.seq) == parcel.key
        assert made.kind.value == parcel.topic_kind
    (refused,) = spool.rejected()
    assert (refused.seq, refused.kind, refused.reason) == (2, "event", "schema")
    assert spool.is_finished("night")
    assert spool.next_connection() == 3
    assert spool.append([result()]) == [(EPOCH, 20)]
    spool.close()


def test_it_is_moved_once_and_gets_the_pages_of_today(path, disk):
    spool = disk.open(path)
    spool.append([telemetry()])
    spool.tend()
    spool.close()
    again = disk.open(path)
    assert again._file.store.database.page_bytes == 512
    assert len(keys(again)) == 12
    assert again.requeue() == 1
    assert drained(again) == [(EPOCH, 2), *EVENTS, *HEARTBEAT, *TELEMETRY, (EPOCH, 20)]
    again.close()


def test_a_move_that_was_interrupted_goes_on(path, disk, monkeypatch):
    monkeypatch.setattr("edgesweep_agent.spool.migration.STEP_ROWS", 3)
    monkeypatch.setattr("edgesweep_agent.spool.file.OPENING_S", -1.0)
    spool = disk.open(path)
    assert keys(spool) == []
    assert spool.append([result()]) == [(EPOCH, 20)]
    spool.tend()
    assert len(keys(spool)) == 4
    spool.close()
    again = disk.open(path)
    while again.tend():
        pass
    assert keys(again) == [*EVENTS, (EPOCH, 20), *HEARTBEAT, *TELEMETRY]
    again.close()


def test_a_damaged_one_is_saved_row_by_row(path, disk):
    data = bytearray(path.read_bytes())
    data[20:28] = b"\xff" * 8
    path.write_bytes(data)
    spool = disk.open(path)
    assert spool.quarantined is not None
    assert sorted(kinds(spool)) == ["event"] * 5 + ["heartbeat"] + ["telemetry"] * 5
    assert {key[0] for key in keys(spool)} == {EPOCH}
    assert [one.seq for one in spool.rejected()] == [2]
    spool.tell(seal_event)
    assert spool.epoch == 7
    spool.close()


def test_one_without_its_header_too(path, disk):
    data = path.read_bytes()
    path.write_bytes(bytes(100) + data[100:])
    spool = disk.open(path)
    assert set(EVENTS + TELEMETRY + HEARTBEAT) <= set(keys(spool))
    spool.close()
