"""What measuring costs: processor time a token, memory, start, and the error of the times.

Each client runs twice, with few requests and with many, against a mock with an exact timetable in
a process of its own. The difference gives the processor time of a token, everything included: the
client's whole process tree, and the reading of the answers afterwards; what remains is the start.

Another client is a class in ``bench_clients.CLIENTS``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from bench_clients import CLIENTS, Load, Timed

MOCK = Path(__file__).with_name("token_mock.py")


@dataclass
class Cost:
    """What one run of a client took, and how far its times were from the mock's writes."""

    tokens: int
    cpu_s: float
    tree_mib: float
    worker_mib: float | None
    first_request_s: float | None
    ttft_errors_ms: list[float] = field(default_factory=list)
    gap_errors_ms: list[float] = field(default_factory=list)


class Memory(threading.Thread):
    """Peaks of a process tree, looked at ten times a second."""

    def __init__(self, pid: int, worker: str) -> None:
        super().__init__(daemon=True)
        self._root, self._worker = psutil.Process(pid), worker
        self.over = threading.Event()
        self.tree = self.worker = 0
        self.worker_started_s: float | None = None

    def run(self) -> None:
        while not self.over.wait(0.1):
            with contextlib.suppress(psutil.Error):
                self._look()

    def _look(self) -> None:
        tree = [self._root, *self._root.children(recursive=True)]
        self.tree = max(self.tree, sum(process.memory_info().rss for process in tree))
        for process in tree:
            if any(self._worker in word for word in process.cmdline()):
                self.worker = max(self.worker, process.memory_info().rss)
                self.worker_started_s = started_s(process.pid)


def run(client, load: Load) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        argv = client.argv(load, Path(folder))
        before = len(timeline(load.url))
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        memory = Memory(process.pid, client.worker)
        memory.start()
        _, status, usage = os.wait4(process.pid, 0)
        memory.over.set()
        if status:
            raise SystemExit(f"{argv} ended with status {status}")
        answers = client.read(Path(folder))
    seen = timeline(load.url)
    begin_s = memory.worker_started_s
    received = [one["received_ns"] / 1e9 for one in seen[before:]]
    first = [t - begin_s for t in received if begin_s is not None and t > begin_s]
    cost = Cost(
        tokens=sum(len(one["writes"]) for one in seen[before:]),
        cpu_s=usage.ru_utime + usage.ru_stime,
        tree_mib=memory.tree / 2**20,
        worker_mib=memory.worker / 2**20 if memory.worker else None,
        first_request_s=first[0] if first else None,
    )
    for answer in answers:
        compare(cost, answer, seen[answer.number])
    return cost


def started_s(pid: int) -> float:
    """When a process began, on the monotonic clock, to a hundredth of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    suspended_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK") - suspended_s


def compare(cost: Cost, answer: Timed, seen: dict) -> None:
    writes = seen["writes"]
    from_ns = answer.t_send_ns or seen["received_ns"]
    cost.ttft_errors_ms.append(abs(answer.ttft_s * 1e3 - (writes[0] - from_ns) / 1e6))
    if len(answer.gaps_s) == len(writes) - 1:
        gaps = zip(answer.gaps_s, writes, writes[1:], strict=False)
        cost.gap_errors_ms += [abs(gap * 1e3 - (b - a) / 1e6) for gap, a, b in gaps]


def timeline(url: str) -> list[dict]:
    with urllib.request.urlopen(url + "/timeline", timeout=10) as answer:
        return json.load(answer)


def quantile(values: list[float], p: float) -> float:
    return sorted(values)[round(p * (len(values) - 1))] if values else float("nan")


def report(name: str, short: Cost, long: Cost) -> dict:
    per_token_s = (long.cpu_s - short.cpu_s) / (long.tokens - short.tokens)
    return {
        "client": name,
        "cpu_us_per_token": per_token_s * 1e6,
        "cpu_start_s": long.cpu_s - per_token_s * long.tokens,
        "tree_mib": long.tree_mib,
        "worker_mib": long.worker_mib,
        "first_request_s": long.first_request_s,
        "ttft_error_p50_ms": quantile(long.ttft_errors_ms, 0.5),
        "ttft_error_p99_ms": quantile(long.ttft_errors_ms, 0.99),
        "gap_error_p50_ms": quantile(long.gap_errors_ms, 0.5),
        "gap_error_p99_ms": quantile(long.gap_errors_ms, 0.99),
        "gaps_compared": len(long.gap_errors_ms),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", action="append", choices=CLIENTS, help="all by default")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--rate", type=float, default=100.0, help="tokens a second a stream")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5, help="requests of a stream, long run")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--lockstep", action="store_true", help="all streams write at once")
    options = parser.parse_args()
    command = [sys.executable, str(MOCK), "--rate", str(options.rate)]
    command += ["--lockstep"] if options.lockstep else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mock:
        try:
            url = mock.stdout.readline().strip()
            for name in options.client or CLIENTS:
                rows = [measure(name, url, options) for _ in range(options.repeat)]
                show(rows)
        finally:
            mock.kill()


def measure(name: str, url: str, options: argparse.Namespace) -> dict:
    n = options.streams
    short, long = (
        run(CLIENTS[name], Load(url, n, n * rounds, options.tokens))
        for rounds in (1, options.rounds)
    )
    return report(name, short, long)


def show(rows: list[dict]) -> None:
    """The median of each figure over the repetitions."""
    for key, value in rows[0].items():
        values = [row[key] for row in rows if row[key] is not None]
        if isinstance(value, str):
            print(value)
        elif values:
            print(f"  {key:20} {statistics.median(values):10.3f}")


if __name__ == "__main__":
    main()
