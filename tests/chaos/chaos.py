"""Everything fails, again and again, and each record that an agent promised is archived once.

Three agents are given records by their control sockets while a schedule of faults, drawn from the
seed, kills, stops, cuts and slows all that there is. Who answered ``stored`` promised to deliver.
When the last fault is over, the spools have to be empty within ten seconds, every promised record
has to be in the archive exactly once, and InfluxDB has to have every archived level.

``--variant puback`` gives the agents an uplink that believes a broker's PUBACK: it has to fail.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import anyio
import records
from faults import AGENTS, schedule
from whole import Site

import mosquitto
import postgres
from edgesweep_agent import control
from edgesweep_agent.errors import DaemonError

RATE_PER_S = 6.0
DRAINED_WITHIN_S = 10.0
MOST_RESENT = 0.25
# One that projects and is killed keeps its lease for half a minute.
PROJECTED_WITHIN_S = 90.0
GIVE_UP_S = 120.0


@dataclass
class Result:
    """What came of it."""

    seed: int
    promised: set = field(default_factory=set)
    archived: Counter = field(default_factory=Counter)
    sent: int = 0
    resent: int = 0
    drained_s: float | None = None
    levels: int = 0
    projected: int = 0

    @property
    def lost(self) -> int:
        return len(self.promised - self.archived.keys())

    @property
    def doubled(self) -> int:
        return sum(self.archived.values()) - len(self.archived)

    @property
    def faults(self) -> list[str]:
        """What is not as it should be."""
        found = []
        if self.lost or self.doubled:
            found.append("records were lost or doubled")
        if self.drained_s is None or self.drained_s > DRAINED_WITHIN_S:
            found.append(f"the spools were not empty within {DRAINED_WITHIN_S:g} s")
        if self.resent > MOST_RESENT * self.sent:
            found.append(f"more than {MOST_RESENT:.0%} of the records were sent again")
        if self.projected != self.levels and not self.lost:
            found.append("InfluxDB does not have the archived levels")
        return found

    def __str__(self) -> str:
        drained = "never" if self.drained_s is None else f"in {self.drained_s:.1f} s"
        share = self.resent / max(1, self.sent)
        stored = len(self.promised & self.archived.keys())
        return (
            f"seed {self.seed}: drained {drained}, {share:.1%} resent, "
            f"InfluxDB has {self.projected} of {self.levels} levels\n"
            f"made {len(self.promised)} stored {stored} lost {self.lost} "
            f"doubled {self.doubled} resent {self.resent}"
        )


async def feed(site: Site, name: str, dice: random.Random, result: Result, until_s: float) -> None:
    """Give one agent records until then, and note what it promised."""
    number, socket = 0, site.root / f"{name}.sock"
    while time.monotonic() < until_s:
        number += 1
        kind, payload = records.made(name, number, dice, time.time_ns())
        try:
            await control.put(socket, kind.value, payload)
        except (DaemonError, TimeoutError):
            # Killed meanwhile, perhaps after it stored it: nobody was promised anything.
            await asyncio.sleep(0.1)
        else:
            result.promised.add((name, number))
        await asyncio.sleep(dice.expovariate(RATE_PER_S))


async def suffer(site: Site, seed: int, duration_s: float, say) -> None:
    """All faults, each at its time; returns when the last one is over."""
    begun_s = time.monotonic()

    async def one(fault) -> None:
        await asyncio.sleep(max(0.0, begun_s + fault.at_s - time.monotonic()))
        say(f"{fault.at_s:6.1f} s: {fault.what} {fault.whom} for {fault.lasts_s:.1f} s")
        await site.suffer(fault)

    found = schedule(seed, duration_s)
    async with anyio.create_task_group() as tasks:
        for fault in found:
            tasks.start_soon(one, fault)
    by_kind = Counter(fault.what for fault in found)
    say(f"{len(found)} faults: {', '.join(f'{n} {what}' for what, n in sorted(by_kind.items()))}")


async def drained_s(site: Site) -> float | None:
    """How long it took until no spool held anything; ``None`` if that never happened."""
    begun_s = time.monotonic()
    while (took_s := time.monotonic() - begun_s) < GIVE_UP_S:
        if await site.waiting() == 0:
            return took_s
        await asyncio.sleep(0.2)
    return None


def judged(site: Site, result: Result) -> None:
    """Count what the archive and InfluxDB have."""
    for (raw,) in site.postgres.execute("SELECT raw FROM envelopes", site.database):
        if (found := records.id_of(bytes(raw))) is not None:
            result.archived[found] += 1
    ((result.levels,),) = site.postgres.execute("SELECT count(*) FROM levels", site.database)
    # Where records are lost it has been decided, and nothing more is waited for.
    deadline = time.monotonic() + (0.0 if result.lost else PROJECTED_WITHIN_S)
    while True:
        rows = site.influx.rows("SELECT count(concurrency) FROM edgesweep_level")
        result.projected = rows[0]["count"] if rows else 0
        if result.projected >= result.levels or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    result.sent, result.resent = len(site.sent.times), site.sent.resent


async def run(root: Path, seed: int, duration_s: float, variant: str, say) -> Result:
    """One whole chaos."""
    result = Result(seed)
    async with Site(root, variant) as site:
        say(f"all is up; seed {seed}, {duration_s:g} s")
        until_s = time.monotonic() + duration_s
        async with anyio.create_task_group() as tasks:
            for n, name in enumerate(AGENTS):
                dice = random.Random(f"{seed}/{n}")
                tasks.start_soon(feed, site, name, dice, result, until_s)
            await suffer(site, seed, duration_s, say)
        result.drained_s = await drained_s(site)
        await anyio.to_thread.run_sync(judged, site, result)
    return result


def missing() -> str:
    """Services that are not here; "" if all are."""
    found = {
        "mosquitto": shutil.which(mosquitto.BINARY),
        "influxdb": shutil.which("influxd"),
        "postgresql": (postgres.BINARIES / "initdb").exists(),
    }
    return " ".join(name for name, there in found.items() if not there)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duration", type=float, default=600.0, metavar="S")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--variant", choices=("agent", "puback"), default="agent")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave all files and logs there")
    asked = parser.parse_args()
    if lacking := missing():
        print(f"not installed, so nothing is tried: apt-get install {lacking}")
        return 0
    begun_s = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - begun_s:6.1f}] {text}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        root = Path(folder)
        try:
            result = asyncio.run(run(root, asked.seed, asked.duration, asked.variant, say))
        finally:
            if asked.keep:
                shutil.copytree(root, asked.keep, ignore=shutil.ignore_patterns("*.sock", "influx"))
    for fault in result.faults:
        say(f"FAILED: {fault}")
    print(result)
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
