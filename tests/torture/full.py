"""Disks that fill up: a tmpfs of 4 MiB where we may mount one, else a limit on sizes of files."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from oracle import BrokenError, Promises
from writer import is_what_it_was, opened, told

from edgesweep_agent.core.room import Limits
from edgesweep_agent.errors import SpoolError
from edgesweep_agent.spool.outbox import Outbox
from spooling import heartbeat, result, seal_event, telemetry

if TYPE_CHECKING:
    import random
    from pathlib import Path

MIB = 2**20
MAX_LOG_LINES = 10


class Tmpfs:
    """A file system that a file of ballast fills to the last block."""

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            for size in (65536, 4096, 512, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def free(self) -> None:
        self._filler.unlink()


class Limit:
    """The files of this process may not grow beyond what the spool has."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        largest = max(
            one.stat().st_size for one in self._folder.iterdir() if "ballast" not in one.name
        )
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, self._before[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


@contextmanager
def small(folder: Path):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]
    if (
        os.geteuid() == 0
        and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    ):
        try:
            yield Tmpfs(folder)
        finally:
            subprocess.run(["umount", folder], check=True)
    else:
        yield Limit(folder)


class Lines(logging.Handler):
    """Counts what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record) -> None:
        self.count += 1


class Producer:
    """Makes records and delivers them, and knows how many there were of each fate."""

    def __init__(self, outbox: Outbox, dice: random.Random) -> None:
        self.outbox, self._dice = outbox, dice
        self.made = self.refused = 0
        self.sent: set = set()
        self.promises = Promises()

    async def make(self, count: int) -> None:
        for _ in range(count):
            self.made += 1
            what = self._dice.random()
            if what < 0.7:
                await self.outbox.later(*telemetry(self._dice.randrange(1, 60)))
            elif what < 0.8:
                await self.outbox.later(*heartbeat())
            else:
                try:
                    self.promises.stored.add(
                        await self.outbox.put(*result(self._dice.randrange(2000)))
                    )
                except SpoolError:
                    self.refused += 1
        await self.outbox._commit()

    async def deliver(self, limit: int) -> int:
        parcels = await self.outbox.head(limit)
        for one in parcels:
            if one.key in self.sent:
                raise BrokenError(f"{one.key} is delivered twice")
            self.promises.heard(told(one))
            self.sent.add(one.key)
        await self.outbox.settle([one.key for one in parcels], [], "")
        return len(parcels)


async def outage(folder: Path, disk: Tmpfs | Limit, dice: random.Random) -> int:
    """One full disk from beginning to end; how many records there were."""
    spool = opened(folder, Limits(16 * MIB, 0, 0))

    async def at_once(_seconds: float) -> None:
        await anyio.lowlevel.checkpoint()

    producer = Producer(Outbox(spool, sleep=at_once), dice)
    await producer.make(dice.randrange(100, 300))
    spool.tend()
    disk.fill()
    await producer.make(dice.randrange(100, 3000))
    if dice.random() < 0.7:  # the link is up meanwhile
        while await producer.deliver(50):
            spool.tend()
            await producer.make(dice.randrange(3))
    disk.free()
    spool.tend()
    await producer.make(200)
    while spool.tend():
        pass
    if spool.trouble:
        raise BrokenError(f"it did not recover: {spool.trouble}")
    while await producer.deliver(100):
        pass
    await _balanced(producer)
    spool.close()
    return producer.made


async def _balanced(producer: Producer) -> None:
    spool = producer.outbox.spool
    dropped = sum(spool.status().dropped.values())
    own = len(producer.sent)
    if own + dropped + producer.refused != producer.made:
        raise BrokenError(
            f"made {producer.made}, sent {own}, dropped {dropped}, refused {producer.refused}"
        )
    spool.tell(seal_event)
    for one in spool.head(1000):
        producer.promises.heard(told(one))
        if not is_what_it_was(one):
            raise BrokenError("the word of what was dropped is not what was stored")
    lost = producer.promises.stored - producer.sent
    if any(not producer.promises.is_dropped(key) for key in lost):
        raise BrokenError("a record that was stored is neither sent nor told")


def run(root: Path, count: int, dice: random.Random) -> str:
    """Fill so many disks; what came of it.

    Raises:
        BrokenError: a promise was not kept.
    """
    made, kind, lines = 0, "none", Lines()
    log = logging.getLogger("edgesweep_agent")
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        for _ in range(count):
            lines.count = 0
            with small(root / "full") as disk:
                kind = type(disk).__name__
                made += anyio.run(outage, root / "full", disk, dice)
            if lines.count > MAX_LOG_LINES:
                raise BrokenError(f"{lines.count} lines in the log")
    finally:
        log.removeHandler(lines)
    return (
        f"{count} full disks ({kind}), {made} records made, each sent, told as dropped or refused"
    )
