"""kill -9 at random instants, again and again on the same spool."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from oracle import Promises, examined

if TYPE_CHECKING:
    import random

HERE = Path(__file__).parent
KILLS_PER_SPOOL = 25
OLD = HERE.parent / "fixtures/spool/0.1.db.gz"
OLD_EPOCH = 0x1122334455667788
OLD_SEQS = (2, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18, 19)
PYTHONPATH = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, sys.path)])


def killed(folder: Path, dice: random.Random, *, opening: bool) -> str:
    """Start a writer and kill it; all that it said."""
    command = [sys.executable, HERE / "writer.py", folder, str(dice.random())]
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        said = "" if opening else process.stdout.readline()
        time.sleep(dice.uniform(0, 0.4 if opening else 0.15))
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
    if process.returncode != -signal.SIGKILL:
        raise AssertionError(f"the writer ended by itself with {process.returncode}")
    return said + rest


def begun(folder: Path, number: int) -> Promises:
    """A new series: every other one begins with the spool of an agent of 0.1."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    promises = Promises()
    if number % 2:
        (folder / "spool.db").write_bytes(gzip.decompress(OLD.read_bytes()))
        promises.stored |= {(OLD_EPOCH, seq) for seq in OLD_SEQS}
    return promises


def run(root: Path, count: int, dice: random.Random) -> str:
    """Kill so many times; what came of it.

    Raises:
        BrokenError: a promise was not kept.
    """
    stored = 0
    folder, promises = root / "kills", Promises()
    for n in range(count):
        if n % KILLS_PER_SPOOL == 0:
            stored += len(promises.stored)
            promises = begun(folder, n // KILLS_PER_SPOOL)
        promises.heard(killed(folder, dice, opening=n % 10 == 9))
        examined(folder, promises, drain=n % 7 == 6)
    stored += len(promises.stored)
    return f"{count} kills, {stored} records stored, none lost, doubled or invented"
