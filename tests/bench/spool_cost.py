"""What the spool costs: records a second, and bytes that go to the disk for each byte of them.

Bytes are those of ``write_bytes`` in ``/proc/self/io``: pages that this process caused to be
written by the block layer, so at least 4 KiB for each that is touched between two syncs; beside
them those it handed to the kernel (``wchar``). The file system's own journal is in neither. Runs
on the disk of ``--folder``; on a tmpfs nothing is written, and that is said.

Records are stored in groups, delivered in groups of a window, and deleted with the next commit, as
the daemon does it. "backlog" is what waits while that goes on.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))

from edgesweep.records import Kind
from edgesweep_agent.core.room import Limits
from edgesweep_agent.spool import Spool
from spooling import sealed

MIB = 2**20
GROUP = 64
DAY_S = 86_400


@dataclass(frozen=True)
class Written:
    """What was written in a while, in bytes."""

    blocks: int
    handed: int

    @classmethod
    def now(cls) -> Written:
        lines = Path("/proc/self/io").read_text().splitlines()
        figures = dict(line.split(": ") for line in lines)
        return cls(int(figures["write_bytes"]), int(figures["wchar"]))

    def since(self, before: Written) -> Written:
        return Written(self.blocks - before.blocks, self.handed - before.handed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--records", type=int, default=20_000, help="of each line")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="edgesweep-spool-cost-", dir=given.folder))
    try:
        in_groups(root, given.records)
        by_the_day(root)
        openings(root)
    finally:
        shutil.rmtree(root)


def in_groups(root: Path, records: int) -> None:
    print(f"\nIn groups of {GROUP}, each delivered and deleted:\n")
    print("| kind | bytes | backlog | records/s | written/byte | handed over/byte | us of CPU |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for kind, size, backlog in (
        (Kind.TELEMETRY, 3000, 0),
        (Kind.TELEMETRY, 3000, 6400),
        (Kind.LEVEL, 3000, 0),
        (Kind.LEVEL, 3000, 6400),
        (Kind.TELEMETRY, 300, 0),
        (Kind.TELEMETRY, 600, 6400),
        (Kind.TELEMETRY, 1200, 6400),
        (Kind.TELEMETRY, 6000, 6400),
    ):
        line(root, kind, size, backlog, records)


def line(root: Path, kind: Kind, size: int, backlog: int, records: int) -> None:
    spool, entries = opened(root), [entry(kind, size)] * GROUP
    for _ in range(backlog // GROUP):
        spool.append(entries)
    before, began_s, cpu_s = Written.now(), time.monotonic(), time.process_time()
    for _ in range(records // GROUP):
        spool.append(entries)
        deliver(spool, GROUP)
    spool.tend()
    took_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    spool.close()
    written, raw = Written.now().since(before), records * size
    print(
        f"| {kind.value} | {size} | {backlog} | {records / took_s:,.0f} |"
        f" {written.blocks / raw:.2f} | {written.handed / raw:.2f} |"
        f" {cpu_s / records * 1e6:.0f} |",
        flush=True,
    )


def by_the_day(root: Path) -> None:
    print("\nTwo records at each commit, every two seconds, as at 1 Hz; a day of it:\n")
    print("| bytes | backlog | bytes written a commit | written a day |")
    print("|---:|---:|---:|---:|")
    for size, backlog in ((600, 0), (1500, 0), (3000, 0), (3000, 2000)):
        spool, entries, commits = opened(root), [entry(Kind.TELEMETRY, size)] * 2, 3000
        for _ in range(backlog // 2):
            spool.append(entries)
        before = Written.now()
        for _ in range(commits):
            spool.append(entries)
            deliver(spool, 2)
        spool.close()
        each = Written.now().since(before).blocks / commits
        print(f"| {size} | {backlog} | {each:,.0f} | {each * DAY_S / 2 / 1e9:.2f} GB |", flush=True)


def openings(root: Path) -> None:
    print("\nOpening a spool of 256 MiB:\n")
    print("| file | s until it takes records |")
    print("|---|---:|")
    spool, entries = opened(root), [entry(Kind.LEVEL, 3000)] * 1000
    while (root / "spool.db").stat().st_size < 256 * MIB:
        spool.append(entries)
    spool.close()
    print(f"| whole | {timed(root):.2f} |")
    with (root / "spool.db").open("rb+") as file:
        file.seek(20)
        file.write(b"\xff" * 8)
    print(f"| damaged | {timed(root):.2f} |")
    spool = opened(root, fresh=False)
    began_s = time.monotonic()
    while spool.tend():
        pass
    print(
        f"\nIts {spool.status().rows:,} rows were saved {time.monotonic() - began_s:.0f} s later."
    )
    spool.close()


def timed(root: Path) -> float:
    began_s = time.monotonic()
    spool = opened(root, fresh=False)
    spool.append([entry(Kind.LEVEL, 300)])
    took_s = time.monotonic() - began_s
    spool.close()
    return took_s


def opened(root: Path, *, fresh: bool = True) -> Spool:
    path = root / "spool.db"
    if fresh:
        shutil.rmtree(root)
        root.mkdir()
    limits = Limits(max_bytes=1024 * MIB, min_free_bytes=0)
    return Spool.open(path, new_epoch=lambda: random.getrandbits(62), limits=limits)


def deliver(spool: Spool, count: int) -> None:
    spool.settle([parcel.key for parcel in spool.head(count)], [], "")


def entry(kind: Kind, size: int):
    payload = random.randbytes(size - 80)
    return kind, lambda epoch, seq: sealed(kind, payload, epoch, seq)


if __name__ == "__main__":
    main()
