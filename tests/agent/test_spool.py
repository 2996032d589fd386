from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from edgesweep.records import Kind
from edgesweep_agent.errors import SettingsError, SpoolError
from edgesweep_agent.spool import Spool


def seal(epoch: int, seq: int) -> bytes:
    return f"{epoch}:{seq}".encode()


def open_spool(tmp_path, epoch=7):
    return Spool.open(tmp_path / "spool.db", new_epoch=lambda: epoch)


def test_rows_leave_in_order_by_priority_and_only_when_settled(tmp_path):
    spool = open_spool(tmp_path)
    spool.append([(Kind.HEARTBEAT, seal), (Kind.LEVEL, seal), (Kind.RUN, seal)])
    assert [(p.topic_kind, p.key) for p in spool.head(9)] == [
        ("level", (7, 2)),
        ("run", (7, 3)),
        ("heartbeat", (7, 1)),
    ]
    spool.settle([(7, 2), (99, 3)], [], "")
    assert [p.key[1] for p in spool.head(9)] == [3, 1]
    spool.close()


def test_the_sequence_goes_on_after_a_restart_and_is_never_reused(tmp_path):
    spool = open_spool(tmp_path)
    keys = spool.append([(Kind.LEVEL, seal)])
    spool.settle(keys, [], "")
    spool.close()
    again = open_spool(tmp_path, epoch=8)
    assert again.append([(Kind.LEVEL, seal)]) == [(7, 2)]
    assert again.head(1)[0].data == b"7:2"
    again.close()


def test_of_heartbeats_only_the_newest_is_kept(tmp_path):
    spool = open_spool(tmp_path)
    for _ in range(3):
        spool.append([(Kind.HEARTBEAT, seal)])
    assert [p.key[1] for p in spool.head(9)] == [3]
    spool.close()


def test_what_the_collector_refuses_is_set_aside_with_its_reason(tmp_path):
    spool = open_spool(tmp_path)
    keys = spool.append([(Kind.LEVEL, seal), (Kind.RUN, seal)])
    spool.settle([], keys[:1], "crc")
    assert spool.rejected() == [(1, "level", "crc")]
    assert spool.status().rows == 1
    spool.close()


def test_a_failed_append_leaves_nothing(tmp_path):
    def broken(epoch: int, seq: int) -> bytes:
        raise ValueError(seq)

    spool = open_spool(tmp_path)
    with pytest.raises(ValueError, match="2"):
        spool.append([(Kind.LEVEL, seal), (Kind.LEVEL, broken)])
    assert spool.status().rows == 0
    assert spool.append([(Kind.LEVEL, seal)]) == [(7, 1)]
    spool.close()


def test_a_second_agent_is_refused(tmp_path):
    spool = open_spool(tmp_path)
    with pytest.raises(SpoolError, match="another agent"):
        open_spool(tmp_path)
    spool.close()


@pytest.mark.parametrize("damage", ["header", "torn", "not a database"])
def test_a_damaged_file_is_set_aside_and_a_new_epoch_begins(tmp_path, damage):
    spool = open_spool(tmp_path)
    spool.append([(Kind.LEVEL, seal)] * 100)
    spool.close()
    path = tmp_path / "spool.db"
    data = path.read_bytes()
    path.write_bytes(
        {
            "header": bytes(100) + data[100:],
            "torn": data[: len(data) - 6000],
            "not a database": b"hello",
        }[damage]
    )
    again = open_spool(tmp_path, epoch=8)
    assert again.quarantined is not None
    assert again.quarantined.exists()
    assert again.append([(Kind.LEVEL, seal)]) == [(8, 1)]
    again.close()


def test_a_spool_that_somebody_holds_is_not_taken_for_a_damaged_one(tmp_path):
    open_spool(tmp_path).close()
    holder = sqlite3.connect(tmp_path / "spool.db", isolation_level=None)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(SpoolError, match="another program"):
        open_spool(tmp_path, epoch=8)
    holder.close()
    again = open_spool(tmp_path, epoch=8)
    assert (again.epoch, again.quarantined) == (7, None)
    again.close()


def test_a_full_disk_refuses_what_is_new_and_lets_go_of_what_is_delivered(tmp_path):
    spool = open_spool(tmp_path)
    spool._db.execute("PRAGMA max_page_count=20")
    stored = []

    def fill() -> None:
        while True:
            stored.extend(spool.append([(Kind.LEVEL, lambda _e, _s: b"x" * 3000)]))

    with pytest.raises(SpoolError, match="full"):
        fill()
    assert spool.status().rows == len(stored)
    spool.settle(stored, [], "")
    assert spool.append([(Kind.LEVEL, seal)]) == [(7, len(stored) + 1)]
    spool.close()


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"spool.path .*file/spool.db"):
        Spool.open(tmp_path / "file/spool.db", new_epoch=lambda: 1)


def test_a_plan_that_has_run_stays_finished(tmp_path):
    spool = open_spool(tmp_path)
    assert not spool.is_finished("p")
    spool.finish("p")
    spool.close()
    again = open_spool(tmp_path)
    assert again.is_finished("p")
    assert again.next_connection() == 1
    assert again.next_connection() == 2
    again.close()


WRITER = """
import sys
from pathlib import Path
from edgesweep.records import Kind
from edgesweep_agent.spool import Spool
spool = Spool.open(Path(sys.argv[1]), new_epoch=lambda: 7)
while True:
    (key,) = spool.append([(Kind.LEVEL, lambda epoch, seq: b"x" * 600)])
    print(key[1], flush=True)
"""


def test_every_row_whose_append_returned_survives_a_kill(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", WRITER, str(tmp_path / "spool.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as writer:
        last = 0
        while last < 40:
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        last = max([last, *(int(line) for line in writer.stdout.read().split())])
    spool = open_spool(tmp_path)
    assert spool.status().rows >= last
    assert spool.quarantined is None
    spool.close()
