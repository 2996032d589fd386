"""The archive under kill -9 and on a full disk, in processes of their own."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

_PYTHON = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "archive.db"


def _stored(path):
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("SELECT seq FROM envelopes ORDER BY row_id").fetchall()
    finally:
        connection.close()
    return [seq for (seq,) in rows]


_WRITER = """
    import sys, wire
    from edgesweep_collector.archive.archive import Archive
    from edgesweep_collector.archive.rows import Kept
    archive = Archive.open(sys.argv[1])
    seq = int(sys.argv[2])
    while True:
        batch = [wire.received(wire.level(seq + i), seq + i) for i in range(3)]
        if set(archive.append(batch)) != {Kept.STORED}:
            sys.exit("a new envelope was taken for a duplicate")
        seq += 3
        print(seq - 1, flush=True)
"""


def test_what_append_returned_survives_kill_9(path):
    """SPL-01 at the collector: killed in mid-append, again and again."""
    last = 0
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_WRITER), f"sqlite:///{path}", str(last + 1)],
            stdout=subprocess.PIPE,
            env=_PYTHON,
            text=True,
        )
        with child:
            assert int(child.stdout.readline()) == last + 3
            time.sleep(random.uniform(0.05, 0.2))
            child.send_signal(signal.SIGKILL)
            told = [int(line) for line in child.stdout]
        stored = _stored(path)
        assert stored == list(range(1, len(stored) + 1))
        assert len(stored) >= max(told, default=last + 3)
        last = len(stored)


_ON_A_FULL_DISK = """
    import resource, signal, sys, wire
    from edgesweep_collector.archive.archive import Archive
    from edgesweep_collector.archive.rows import Kept
    from edgesweep_collector.errors import ArchiveUnavailable
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    archive = Archive.open(sys.argv[1])
    archive.append([wire.received(wire.level(1), 1)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    seq = 2
    try:
        while True:
            archive.append([wire.received(wire.level(seq), seq)])
            seq += 1
    except ArchiveUnavailable as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert archive.append([wire.received(wire.level(seq), seq)]) == [Kept.STORED]
    assert [row.level.concurrency for row in archive.levels_after(0, 999)] == [*range(1, seq + 1)]
    archive.close()
"""


def test_a_full_disk_stores_nothing_and_recovers(path):
    """SPL-02 at the collector: an append that raises left nothing, and the next one works."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_ON_A_FULL_DISK), f"sqlite:///{path}"],
        env=_PYTHON,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "does not write" in done.stdout
