"""Rows in, parcels out, and what outlives a restart."""

from __future__ import annotations

import sqlite3

import pytest

from edgesweep import envelope
from edgesweep.records import Kind
from edgesweep_agent.errors import SettingsError, SpoolError
from edgesweep_agent.spool import Spool
from spooling import MIB, Disk, drained, heartbeat, keys, result, seal_event, telemetry, told


def seal(epoch: int, seq: int) -> bytes:
    return f"{epoch}:{seq}".encode()


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spool.db"


def test_rows_leave_in_order_by_priority_and_only_when_settled(path, disk):
    spool = disk.open(path)
    spool.append([telemetry(), heartbeat(), (Kind.LEVEL, seal), (Kind.RUN, seal)])
    assert [(p.topic_kind, p.key) for p in spool.head(9)] == [
        ("level", (7, 3)),
        ("run", (7, 4)),
        ("heartbeat", (7, 2)),
        ("telemetry", (7, 1)),
    ]
    spool.settle([(7, 3), (99, 4)], [], "")
    assert [key[1] for key in keys(spool)] == [4, 2, 1]
    spool.close()


def test_a_head_is_bounded_by_count_and_bytes_and_passes_over_what_is_on_its_way(path, disk):
    spool = disk.open(path)
    spool.append([result(1000)] * 10)
    assert [p.key[1] for p in spool.head(3)] == [1, 2, 3]
    assert [p.key[1] for p in spool.head(9, 2500)] == [1, 2, 3]
    assert [p.key[1] for p in spool.head(9, 1)] == [1]
    assert [p.key[1] for p in spool.head(2, skip=[(7, 1), (7, 3), (8, 2)])] == [2, 4]
    spool.close()


def test_the_sequence_goes_on_after_a_restart_and_is_never_reused(path, disk):
    spool = disk.open(path)
    spool.settle(spool.append([result()] * 5), [], "")
    spool.close()
    again = disk.open(path)
    assert again.append([result()]) == [(7, 6)]
    assert envelope.decode(again.head(1)[0].data).seq == 6
    again.close()


def test_of_heartbeats_only_the_newest_is_kept_and_the_others_are_told(path, disk):
    spool = disk.open(path)
    for _ in range(2):
        spool.append([heartbeat()])
    spool.append([heartbeat(), heartbeat()])
    assert keys(spool) == [(7, 4)]
    (dropped,) = told(spool)
    assert (dropped.ranges, dropped.by_kind) == (((1, 3),), {"heartbeat": 3})
    assert dropped.reason == "superseded"
    spool.close()


def test_what_is_delivered_is_gone_at_once_and_after_a_restart(path, disk):
    spool = disk.open(path, keep_delivered_bytes=0)
    spool.append([result(), telemetry(), heartbeat(), result()])
    spool.settle([(7, 1), (7, 2), (7, 3)], [], "")
    assert (keys(spool), spool.status().rows) == ([(7, 4)], 1)
    spool.close()
    again = disk.open(path)
    assert (keys(again), again.status().rows) == ([(7, 4)], 1)
    again.close()


def test_what_was_delivered_is_written_down_with_what_comes_next(path, disk):
    """A commit of its own for each ack would wear a flash out."""
    spool = disk.open(path)
    spool.append([telemetry()] * 2)
    spool.settle([(7, 1)], [], "")
    assert spool._file.store.unwritten == 1
    spool.append([telemetry()])
    assert spool._file.store.unwritten == 0
    spool.settle([(7, 2)], [], "")
    spool.tend()
    assert spool._file.store.unwritten == 0
    spool.close()


def test_delivered_results_stay_for_a_while_and_can_be_asked_for_again(path, disk):
    spool = disk.open(path, keep_delivered_bytes=5000)
    spool.append([result(1000)] * 8 + [telemetry()])
    assert len(drained(spool)) == 9
    spool.close()
    again = disk.open(path, keep_delivered_bytes=5000)
    assert keys(again) == []
    assert 3000 < again.status().delivered_bytes <= 5000
    missing = again.resend(7, ((1, 12),))
    assert keys(again) == [(7, 5), (7, 6), (7, 7), (7, 8)]
    assert missing == ((1, 4), (9, 12))
    assert again.resend(99, ((3, 4),)) == ((3, 4),)
    assert again.resend(7, ((1, 2**63 - 1),)) == ((1, 4), (9, 2**63 - 1))
    again.close()


def test_what_waits_is_not_missing_when_it_is_asked_for(path, disk):
    spool = disk.open(path)
    spool.append([telemetry()] * 3)
    spool.settle([(7, 2)], [], "")
    assert spool.resend(7, ((1, 3),)) == ()
    assert keys(spool) == [(7, 1), (7, 2), (7, 3)]
    spool.close()


def test_what_the_collector_refuses_is_set_aside_and_can_wait_again(path, disk):
    spool = disk.open(path)
    spool.append([result(), telemetry(), result()])
    spool.settle([], [(7, 1), (7, 2)], "crc")
    assert [(one.seq, one.kind, one.reason) for one in spool.rejected()] == [
        (1, "event", "crc"),
        (2, "telemetry", "crc"),
    ]
    assert spool.status().rejected == 2
    assert spool.requeue([(7, 2), (7, 9)]) == 1
    assert spool.requeue() == 1
    assert keys(spool) == [(7, 1), (7, 3), (7, 2)]
    spool.close()


def test_what_is_set_aside_is_bounded_and_its_oldest_is_told(path, disk):
    spool = disk.open(path, max_bytes=MIB)
    refused = spool.append([result(10_000)] * 15)
    spool.settle([], refused, "schema")
    (dropped,) = told(spool)
    left = [one.seq for one in spool.rejected()]
    assert dropped.reason == "refused"
    assert dropped.ranges == ((1, left[0] - 1),)
    assert sum(one.size_bytes for one in spool.rejected()) <= MIB // 10
    spool.close()


def test_a_record_too_large_for_the_transport_becomes_several(path, disk):
    spool = disk.open(path)
    spool.append([telemetry(100), telemetry(1), result(5000)])
    spool.shrink((7, 1), 1000)
    spool.shrink((7, 3), 1000)
    spool.shrink((7, 77), 1000)
    parcels = spool.head(99)
    assert parcels[0].key == (7, 2)
    assert all(len(parcel.data) <= 1000 for parcel in parcels)
    assert [envelope.decode(parcel.data).seq for parcel in parcels] == [2, 4, 5, 6, 7]
    (dropped,) = told(spool)
    assert (dropped.ranges, dropped.reason) == (((1, 1),), "split")
    (aside,) = spool.rejected()
    assert aside.reason == f"event of {aside.size_bytes} bytes, and the transport takes 1000"
    spool.close()


def test_a_failed_append_leaves_nothing(path, disk):
    def broken(_epoch: int, seq: int) -> bytes:
        raise ValueError(seq)

    spool = disk.open(path)
    with pytest.raises(ValueError, match="2"):
        spool.append([(Kind.LEVEL, seal), (Kind.LEVEL, broken)])
    assert spool.status().rows == 0
    assert spool.append([(Kind.LEVEL, seal)]) == [(7, 1)]
    spool.close()


def test_a_second_agent_is_refused(path, disk):
    spool = disk.open(path)
    with pytest.raises(SpoolError, match="another agent"):
        disk.open(path)
    spool.close()


def test_a_folder_that_cannot_be_is_named(tmp_path, disk):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"spool.path .*file"):
        disk.open(tmp_path / "file/spool.db")


def test_what_others_ask_it_to_remember(path, disk):
    spool = disk.open(path)
    assert not spool.is_finished("p")
    spool.finish("p")
    assert spool.known_wall_ns() is None
    spool.note_wall_ns(5 * 10**18)
    spool.close()
    again = disk.open(path)
    assert again.is_finished("p")
    assert not again.is_finished("q")
    assert again.known_wall_ns() == 5 * 10**18
    assert again.next_connection() == 1
    assert again.next_connection() == 2
    again.close()


def test_totals_of_what_was_dropped_outlive_a_restart_and_are_told_once(path, disk):
    spool = disk.open(path)
    spool.append([heartbeat()])
    spool.append([heartbeat()])
    spool.drop({"telemetry": 3})
    spool.close()
    again = disk.open(path)
    assert again.status().dropped == {"heartbeat": 1, "telemetry": 3}
    assert again.tell(seal_event)
    disk.now_s += 61
    assert not again.tell(seal_event)
    assert again.status().dropped == {"heartbeat": 1, "telemetry": 3}
    again.close()


def test_what_is_dropped_is_told_once_a_minute_and_while_nobody_listens_not_at_all(path, disk):
    spool = disk.open(path)
    spool.append([heartbeat(), heartbeat()])
    assert spool.tell(seal_event)
    spool.append([heartbeat(), heartbeat()])
    assert not spool.tell(seal_event)
    disk.now_s += 61
    assert not spool.tell(seal_event)  # the word of before has not been delivered
    drained(spool)
    assert spool.tell(seal_event)
    assert [one.ranges for one in told(spool)] == [((2, 2), (4, 4))]
    spool.close()


def test_a_file_shrinks_once_little_is_in_it(path, disk):
    spool = disk.open(path)
    for _ in range(120):
        spool.append([result(200_000)])
    large = path.stat().st_size
    drained(spool)
    spool.tend()
    spool.tend()
    assert large > 23 * MIB
    assert path.stat().st_size < 5 * MIB
    assert spool.append([result()]) == [(7, 121)]
    spool.close()


def test_a_reader_beside_the_agent_cannot_hold_the_log_up(path, disk):
    spool = disk.open(path)
    spool.append([result()])
    reader = sqlite3.connect(path, timeout=0.1)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        reader.execute("SELECT * FROM results").fetchone()
    reader.close()
    spool.close()


def test_beside_a_spool_there_is_a_ballast(path):
    spool = Spool.open(path, new_epoch=lambda: 5)
    assert (spool.epoch, spool.trouble) == (5, "")
    assert path.with_name("spool.db.ballast").stat().st_size == MIB
    spool.close()
