"""Power cuts: of what was not synced when the writer stopped, any part may be missing.

The writer says how far its log was synced before each thing that it does. It is stopped at a
random instant and its files are copied. In the copy, what the log has behind that point is cut,
zeroed or overwritten, sector by sector; and pages of the database that were written since an
earlier stop are as they were then, as long as the log has not begun anew.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from kills import HERE, PYTHONPATH
from oracle import Promises, examined

if TYPE_CHECKING:
    import random
    from pathlib import Path

SECTOR = 512
CUTS_PER_WRITER = 20
SIDES = ("spool.db", "spool.db-wal", "spool.db.lock")


class Writer:
    """A writer that can be stopped, and what it has said."""

    def __init__(self, folder: Path, seed: str) -> None:
        command = [sys.executable, HERE / "writer.py", folder, seed, "--position"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": PYTHONPATH}
        )
        self._said = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while piece := os.read(self.process.stdout.fileno(), 65536):
            self._said += piece

    def stopped(self) -> str:
        """Stop it where it is; all that it has said."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(0.03)
        return self._said.decode()

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()


def copied(source: Path, target: Path) -> dict[str, bytes]:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    found = {side: (source / side).read_bytes() for side in SIDES if (source / side).exists()}
    for side, data in found.items():
        (target / side).write_bytes(data)
    return found


def cut(folder: Path, now: dict, before: dict, position: str, dice: random.Random) -> None:
    """Take away what a power cut may take away."""
    log, earlier = now.get("spool.db-wal", b""), before.get("spool.db-wal", b"")
    salts, end = position.split()
    synced = int(end) if log[16:24].hex() == salts else 0
    (folder / "spool.db-wal").write_bytes(unsynced(log, synced, dice))
    if log[:32] == earlier[:32]:
        (folder / "spool.db").write_bytes(reverted(now["spool.db"], before["spool.db"], dice))


def unsynced(log: bytes, synced: int, dice: random.Random) -> bytes:
    kept = bytearray(log)
    how = dice.choice(("cut", "zeros", "noise", "whole"))
    if how == "cut":
        del kept[dice.randrange(synced, len(log) + 1) :]
    elif how != "whole":
        for at in range(synced, len(log), SECTOR):
            if dice.random() < 0.5:
                end = min(len(log), at + SECTOR)
                kept[at:end] = bytes(end - at) if how == "zeros" else dice.randbytes(end - at)
    return bytes(kept)


def reverted(now: bytes, before: bytes, dice: random.Random) -> bytes:
    kept, share = bytearray(now), dice.random()
    for at in range(0, min(len(now), len(before)), SECTOR):
        if dice.random() < share:
            kept[at : at + SECTOR] = before[at : at + SECTOR]
    return bytes(kept)


def run(root: Path, count: int, dice: random.Random) -> str:
    """Cut the power so many times; what came of it.

    Raises:
        BrokenError: a promise was not kept.
    """
    done = stored = 0
    while done < count:
        folder = root / "power"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        writer = Writer(folder, str(dice.random()))
        try:
            time.sleep(0.5)
            before: dict[str, bytes] = {}
            cuts = 0
            while done < count and cuts < CUTS_PER_WRITER:
                said = writer.stopped()
                now = copied(folder, root / "cut")
                positions = [line[2:] for line in said.splitlines()[:-1] if line.startswith("B ")]
                if positions and before:
                    cut(root / "cut", now, before, positions[-1], dice)
                    promises = Promises()
                    promises.heard(said)
                    examined(root / "cut", promises)
                    stored += len(promises.stored)
                    done += 1
                    cuts += 1
                before = now
                writer.go_on()
                time.sleep(dice.uniform(0, 0.2))
        finally:
            writer.end()
    return f"{count} power cuts, {stored} records looked for, all that was promised was there"
