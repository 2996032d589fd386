"""What a technician sees of a spool, on a live one and on a copy, and the file that is carried."""

from __future__ import annotations

import io
import shutil

import pytest

from edgesweep import carried, envelope
from edgesweep_agent.errors import SpoolError
from edgesweep_agent.spool import Spool
from spooling import WALL_NS, Disk, heartbeat, result, telemetry


@pytest.fixture
def spool(tmp_path):
    spool = Disk().open(tmp_path / "spool.db")
    spool.append([telemetry(), result(), result(2000), heartbeat(), result()])
    spool.settle([(7, 2)], [(7, 3)], "schema")
    spool.tend()
    yield spool
    spool.close()


@pytest.fixture
def copied(spool, tmp_path):
    folder = tmp_path / "stick"
    folder.mkdir()
    for side in ("", "-wal"):
        shutil.copy(tmp_path / f"spool.db{side}", folder)
    return folder / "spool.db"


def exported(export):
    file = io.BytesIO()
    count = export(file)
    file.seek(0)
    found = [envelope.decode(one.envelope) for one in carried.read(file)]
    assert len(found) == count
    return [(one.epoch, one.seq) for one in found]


def test_the_rows_of_a_live_spool(spool):
    rows = spool.rows(10)
    assert [(one.seq, one.kind, one.state) for one in rows] == [
        (5, "event", "waiting"),
        (4, "heartbeat", "waiting"),
        (1, "telemetry", "waiting"),
        (3, "event", "refused"),
    ]
    assert {one.wall_ns for one in rows} == {WALL_NS}
    assert rows[3].reason == "schema"
    assert len(spool.rows(2)) == 2


def test_a_copy_is_read_without_an_agent(copied):
    copied.chmod(0o400)
    copy = Spool.read_only(copied)
    assert {(one.seq, one.state) for one in copy.rows(10)} == {
        (1, "waiting"),
        (2, "delivered"),
        (3, "refused"),
        (4, "waiting"),
        (5, "waiting"),
    }
    assert len(copy.rows(2)) == 2
    assert [(one.seq, one.reason) for one in copy.rejected()] == [(3, "schema")]
    assert sorted(exported(copy.export)) == [(7, 1), (7, 4), (7, 5)]
    copy.close()
    assert sorted(one.name for one in copied.parent.iterdir()) == ["spool.db", "spool.db-wal"]


def test_a_damaged_copy_is_read_as_far_as_it_goes(copied):
    data = copied.read_bytes()
    copied.write_bytes(b"\0" * 100 + data[100:])
    copy = Spool.read_only(copied)
    assert sorted(exported(copy.export)) == [(7, 1), (7, 4), (7, 5)]
    copy.close()


def test_a_live_one_is_asked_through_its_agent(spool, tmp_path):
    with pytest.raises(SpoolError, match="an agent has this spool open; ask it"):
        Spool.read_only(tmp_path / "spool.db")


def test_one_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SpoolError, match=r"none.db: No such file"):
        Spool.read_only(tmp_path / "none.db")
