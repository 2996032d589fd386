"""A sample of ``make torture``; and that what it looks for can be missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgesweep_agent.errors import SpoolError
from small_disk import remounted, small_disk
from spooling import MIB, Disk, drained, keys, result, telemetry

TORTURE = Path(__file__).parents[1] / "torture"


@pytest.mark.sample
def test_a_sample():
    counts = {"kills": 6, "torn": 15, "truncated": 15, "flips": 15, "power": 6, "full": 1}
    options = [word for name, count in counts.items() for word in (f"--{name}", str(count))]
    done = subprocess.run(
        [sys.executable, TORTURE / "spool.py", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\n") == 7


BROKEN = """
import sys
sys.path[:0] = {paths}
from oracle import BrokenError, Promises, examined
from pathlib import Path
from writer import KINDS, entry, keys_text, opened
folder = Path(sys.argv[1])
spool = opened(folder)
keys = spool.append([entry(KINDS[0])] * 5)
spool.close()
for said, says in (
    (f"A {{keys_text(keys)}} 5:7\\n", "1 stored records are gone"),
    (f"A {{keys_text(keys)}} {{keys[0][0]}}:9\\n", "1 stored records are gone"),
    (f"A {{keys_text(keys)}} {{keys[0][0]}}:9\\nD {{keys[0][0]}}:9\\n", "would be given out again"),
):
    promises = Promises()
    promises.heard(said)
    try:
        examined(folder, promises)
    except BrokenError as error:
        assert says in str(error), error
    else:
        sys.exit(f"not seen: {{says}}")
promises = Promises()
promises.heard(f"A {{keys_text(keys)}}\\n")
examined(folder, promises)
"""


def test_a_record_that_is_gone_is_seen(tmp_path):
    paths = [str(TORTURE), str(TORTURE.parent)]
    script = BROKEN.format(paths=paths)
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_disk_that_turned_read_only_is_waited_for(tmp_path):
    with small_disk(tmp_path / "disk") as folder:
        disk = Disk()
        before = disk.open(folder / "spool.db")
        before.append([result()])
        before.close()
        remounted(folder, "ro")
        spool = disk.open(folder / "spool.db")
        assert "Read-only file system" in spool.trouble
        assert spool.hold([telemetry()]) == [(8, 1)]
        with pytest.raises(SpoolError, match="Read-only"):
            spool.append([result()])
        assert keys(spool) == [(8, 1)]
        remounted(folder, "rw")
        disk.now_s += 31
        spool.tend()
        assert keys(spool) == [(7, 1), (8, 1)]
        assert spool.append([result()]) == [(7, 2)]
        spool.close()


def test_a_place_that_cannot_be_made_now_is_waited_for_too(tmp_path):
    with small_disk(tmp_path / "disk") as folder:
        disk = Disk()
        remounted(folder, "ro")
        spool = disk.open(folder / "var/spool.db")
        assert "Read-only file system" in spool.trouble
        remounted(folder, "rw")
        disk.now_s += 31
        spool.tend()
        assert (spool.trouble, spool.append([result()])) == ("", [(spool.epoch, 1)])
        spool.close()


def test_an_agent_that_starts_on_a_full_disk_delivers_and_recovers(tmp_path):
    with small_disk(tmp_path / "disk") as folder:
        disk = Disk(free=10 * MIB)
        spool = disk.open(folder / "spool.db", min_free_bytes=0, keep_delivered_bytes=0)
        spool.append([result(3000)] * 300)
        spool.close()
        filler = folder / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (65536, 512, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue
        again = disk.open(folder / "spool.db", min_free_bytes=0, keep_delivered_bytes=0)
        assert again.quarantined is None
        with pytest.raises(SpoolError, match="full"):
            again.append([result(20_000)])
        assert len(drained(again)) == 300
        again.tend()
        assert again._file.store.unwritten == 0
        assert again.append([result(20_000)]) == [(7, 301)]
        again.close()
        filler.unlink()
        last = disk.open(folder / "spool.db", min_free_bytes=0)
        assert keys(last) == [(7, 301)]
        assert (folder / "spool.db.ballast").stat().st_size == MIB
        last.close()
