"""How much a collector takes a CPU-second: from MQTT through the archive to InfluxDB.

The real ``edgesweep-collector serve`` with a real mosquitto and a real influxd, and in the same
run bridges as people write them (ingest_baseline.py), which keep no archive and send no acks. Each
takes the same envelopes of a hundred readings from a publisher in a process of its own. They take
turns, A B C D and D C B A, and are compared by the ratios within each turn.

A point is a reading with its time, which InfluxDB stores as one value of one field: the collector
and the ``wide`` bridge write a hundred of them in a line, the others in a hundred lines, the
``each`` bridge in a hundred requests (of a twentieth of the envelopes). CPU time is that of the
collector's, or the bridge's, process alone, from the first envelope to the last point in InfluxDB.
Latencies of acks are measured apart, at a steady rate: when everything is sent at once, they say
how long the queue is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from ratios import ratio, spread, table

from collectors import BROKER, cpu_s, environment, serving, started
from influx import Influx, running_influx
from influx_rewrite import Rewrite, rewriting
from mosquitto import BINARY, Mosquitto, running_mosquitto

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

HERE = Path(__file__).parent
OURS, BRIDGES = "collector", ("each", "points", "wide")
FEWER = {"each": 20}
WITHIN_S = 300.0
WINDOW = 256
INFLUX = """\
[influx]
url = "{influx}"
bucket = "{bucket}"
"""
FIGURES = {
    "points_per_s": "points a second",
    "points_per_cpu_s": "points a CPU-second",
    "cpu_us_per_envelope": "CPU time an envelope, us",
    "p50_ms": "ack, p50, ms",
    "p99_ms": "ack, p99, ms",
    "rss_mib": "resident, MiB",
}


@dataclass
class Cost:
    """What one turn of one of them took; latencies only where there are acks."""

    points_per_s: float
    points_per_cpu_s: float
    cpu_us_per_envelope: float
    rss_mib: float
    p50_ms: float | None = None
    p99_ms: float | None = None


@dataclass
class Bench:
    """What all turns share."""

    asked: argparse.Namespace
    broker: Mosquitto
    influx: Influx
    front: Rewrite
    costs: dict[str, list[Cost]] = field(default_factory=dict)

    def turn(self, name: str) -> Cost:
        """One of them from its start to its end, into a database and an archive of its own."""
        self.influx.database = f"{name}_{len(self.costs.get(name, []))}"
        self.influx.query(f'CREATE DATABASE "{self.influx.database}"', method="POST")
        with tempfile.TemporaryDirectory() as folder, self._started(name, Path(folder)) as process:
            counted = "bridged" if name in BRIDGES else "edgesweep_telemetry"
            envelopes = self.asked.envelopes // FEWER.get(name, 1)
            before_s = cpu_s(process)
            facts = self._published(0, envelopes, 0.0, acked=name == OURS)
            points = envelopes * self.asked.readings
            ended_s = self._stored(counted, points, process)
            spent_s = cpu_s(process) - before_s
            cost = Cost(
                points_per_s=points / (ended_s - facts["begun_s"]),
                points_per_cpu_s=points / spent_s,
                cpu_us_per_envelope=spent_s / envelopes * 1e6,
                rss_mib=process.memory_info().rss / 2**20,
            )
            if name == OURS:
                paced = self._published(envelopes, self.asked.paced, self.asked.rate, acked=True)
                cost.p50_ms, cost.p99_ms = paced["p50_s"] * 1e3, paced["p99_s"] * 1e3
        self.costs.setdefault(name, []).append(cost)
        return cost

    @contextlib.contextmanager
    def _started(self, name: str, folder: Path) -> Iterator[psutil.Process]:
        port, url, bucket = self.broker.port, self.front.url, self.influx.database
        if name == OURS:
            with serving(folder, port, INFLUX.format(influx=url, bucket=bucket)) as collector:
                yield collector.process
        else:
            bridge = [str(HERE / "ingest_baseline.py"), str(port), url, bucket, name]
            with started(bridge, folder, self._bridged) as process:
                yield process

    def _bridged(self) -> bool:
        log = self.broker.log.read_text(errors="replace")
        return "SUBSCRIBE from bridge" in log.rpartition("New client connected")[2]

    def _published(
        self, first: int, envelopes: int, rate: float, *, acked: bool
    ) -> dict[str, float]:
        command = [sys.executable, str(HERE / "ingest_publish.py"), str(self.broker.port)]
        numbers = (first, envelopes, self.asked.readings, WINDOW, rate)
        command += [*map(str, numbers)]
        command += [] if acked else ["--unacked"]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(), check=False
        )
        if done.returncode != 0:
            raise SystemExit(done.stderr or done.stdout)
        return dict(json.loads(done.stdout))

    def _stored(self, measurement: str, points: int, process: psutil.Process) -> float:
        """When InfluxDB had all of them, in monotonic seconds."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            rows = self.influx.rows(f'SELECT count(*) FROM "{measurement}"')
            found = sum(value for name, value in rows[0].items() if name != "time") if rows else 0
            if found == points:
                return time.monotonic()
            if found > points or not process.is_running():
                raise SystemExit(f"InfluxDB holds {found} of {points} points")
            time.sleep(0.05)
        raise SystemExit(f"InfluxDB holds {found} of {points} points after {WITHIN_S} s")


def page(costs: dict[str, list[Cost]]) -> str:
    """The two tables."""
    shown = {name: [asdict(cost) for cost in found] for name, found in costs.items()}
    heads = ["", *(f"{name} bridge" if name in BRIDGES else name for name in shown)]
    rows = [
        [text, *(spread([cost[key] for cost in found]) for found in shown.values())]
        for key, text in FIGURES.items()
    ]
    told = table(heads, rows)
    ratios = []
    for key in ("points_per_s", "points_per_cpu_s"):
        for name in BRIDGES:
            pairs = [
                (ours[key], theirs[key])
                for ours, theirs in zip(shown[OURS], shown[name], strict=True)
            ]
            ratios.append([FIGURES[key], f"collector / {name} bridge", str(ratio(pairs))])
    return f"{told}\n{table(['', 'ratio', 'mean (95 % interval; turns)'], ratios)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--envelopes", type=int, default=10_000)
    parser.add_argument("--readings", type=int, default=100)
    parser.add_argument(
        "--rate", type=float, default=50.0, help="envelopes a second, for latencies"
    )
    parser.add_argument("--paced", type=int, default=1000, help="envelopes at that rate")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    for program, package in (("influxd", "influxdb"), (BINARY, "mosquitto")):
        if shutil.which(program) is None:
            print(f"{program} is not installed, nothing is measured: apt-get install {package}")
            return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "influx").mkdir()
        with (
            running_influx(root / "influx") as influx,
            rewriting(influx.url) as front,
            running_mosquitto(root, BROKER) as broker,
        ):
            bench = Bench(asked, broker, influx, front)
            for n in range(asked.turns):
                names = [OURS, *BRIDGES]
                for name in names if n % 2 == 0 else reversed(names):
                    cost = bench.turn(name)
                    print(f"turn {n + 1}, {name}: {cost}", file=sys.stderr, flush=True)
    print(page(bench.costs))
    if asked.json:
        facts = {name: [asdict(cost) for cost in found] for name, found in bench.costs.items()}
        asked.json.write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
