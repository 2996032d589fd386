"""What measuring costs: processor time a token, memory, start, and the error of the times.

Each client runs twice, with few requests and with many, against a mock with an exact timetable in
a process of its own. What the many took from their first request to the client's end, less what
the few took, is the cost of the tokens in between: the client's whole process tree, and the
reading of the answers afterwards, but neither its start nor its end. Clients take turns (A B C,
C B A, ...), and are compared by the ratios within each turn.

``--peer NAME=PYTHON`` adds other people's clients (peers/install.py makes their environments).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
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
from peers.registry import PEERS
from ratios import quantile, ratio, spread, table

MOCK = Path(__file__).with_name("token_mock.py")
OURS = "edgesweep"
WITHIN_S = 900.0
FIGURES = {
    "cpu_us_per_token": "processor time a token, us",
    "cpu_start_s": "processor time until the first request, s",
    "first_request_s": "from its start to the first request, s",
    "tree_mib": "memory of the process tree, peak, MiB",
    "worker_mib": "memory of the measuring process, peak, MiB",
    "ttft_error_p50_ms": "TTFT, error, p50, ms",
    "ttft_error_p99_ms": "TTFT, error, p99, ms",
    "ttfr_error_p50_ms": "first chunk of any kind, error, p50, ms",
    "gap_error_p50_ms": "gaps between chunks, error, p50, ms",
    "gap_error_p99_ms": "gaps between chunks, error, p99, ms",
    "tpot_error_p99_ms": "TPOT, error, p99, ms",
    "last_error_p99_ms": "end of the answer, error, p99, ms",
}
RATIOS = ("cpu_us_per_token", "tree_mib", "first_request_s", "ttft_error_p99_ms",
          "gap_error_p99_ms", "tpot_error_p99_ms")  # fmt: skip


@dataclass
class Cost:
    """What one run of a client took, and how far its times were from the mock's writes."""

    tokens: int
    cpu_s: float
    cpu_start_s: float
    first_request_s: float
    tree_mib: float
    worker_mib: float | None
    errors_ms: dict[str, list[float]] = field(default_factory=dict)


class Watch(threading.Thread):
    """Memory and processor time of a process tree, looked at ten times a second."""

    def __init__(self, pid: int, worker: str) -> None:
        super().__init__(daemon=True)
        self._root, self._worker = psutil.Process(pid), worker
        self.over = threading.Event()
        self.tree = self.worker = 0
        self.cpu: list[tuple[float, float]] = [(time.monotonic(), 0.0)]

    def run(self) -> None:
        while not self.over.wait(0.1):
            with contextlib.suppress(psutil.Error):
                self._look()

    def _look(self) -> None:
        tree = [self._root, *self._root.children(recursive=True)]
        self.cpu.append((time.monotonic(), sum(sum(one.cpu_times()[:4]) for one in tree)))
        self.tree = max(self.tree, sum(one.memory_info().rss for one in tree))
        for one in tree:
            if any(self._worker in word for word in one.cmdline()):
                self.worker = max(self.worker, one.memory_info().rss)

    def cpu_at(self, t_s: float) -> float:
        """Between the two looks around that moment."""
        before = max((one for one in self.cpu if one[0] <= t_s), default=self.cpu[0])
        after = min((one for one in self.cpu if one[0] > t_s), default=before)
        if after[0] == before[0]:
            return before[1]
        return before[1] + (after[1] - before[1]) * (t_s - before[0]) / (after[0] - before[0])


def run(client, load: Load) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        before = len(timeline(load.url))
        began_s = time.monotonic()
        watch, cpu_s = run_to_end(client, load, Path(folder))
        answers = client.read(Path(folder))
    seen = timeline(load.url)
    ours = seen[before:]
    first_s = min(one["received_ns"] for one in ours) / 1e9
    cpu_start_s = watch.cpu_at(first_s)
    cost = Cost(
        tokens=sum(len(one["writes"]) for one in ours),
        cpu_s=cpu_s - cpu_start_s,
        cpu_start_s=cpu_start_s,
        first_request_s=first_s - began_s,
        tree_mib=watch.tree / 2**20,
        worker_mib=watch.worker / 2**20 if watch.worker else None,
    )
    known = {str(one["number"]): one for one in seen} | {one["request_id"]: one for one in ours}
    for answer in answers:
        compare(cost.errors_ms, answer, known[answer.key.split(maxsplit=1)[0]])
    return cost


def run_to_end(client, load: Load, folder: Path) -> tuple[Watch, float]:
    """Run it in a group of its own, of which nothing is left; also, its processor time."""
    argv, log = client.argv(load, folder), folder / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            argv, stdout=sink, stderr=sink, env=os.environ | client.environment, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
    watch = Watch(process.pid, client.worker)
    watch.start()
    too_long = threading.Timer(WITHIN_S, os.killpg, (process.pid, signal.SIGKILL))
    too_long.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        too_long.cancel()
        watch.over.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    watch.join()
    if status:
        tail = log.read_text(errors="replace")[-2000:]
        raise SystemExit(f"{argv[:2]} ended with status {status}:\n{tail}")
    return watch, usage.ru_utime + usage.ru_stime


def compare(errors_ms: dict[str, list[float]], answer: Timed, seen: dict) -> None:
    writes = [write / 1e9 for write in seen["writes"]]
    sent_s = answer.t_send_ns / 1e9

    def note(name: str, told_s: float, true_s: float) -> None:
        errors_ms.setdefault(name, []).append(abs(told_s - true_s) * 1e3)

    note("ttft", answer.ttft_s, writes[0] - sent_s)
    if answer.ttfr_s is not None:
        note("ttfr", answer.ttfr_s, seen["opened_ns"] / 1e9 - sent_s)
    if len(answer.gaps_s) == len(writes) - 1:
        for gap, a, b in zip(answer.gaps_s, writes, writes[1:], strict=False):
            note("gap", gap, b - a)
    if answer.tpot_s is not None:
        steps = len(writes) - 1
        note("tpot", answer.tpot_s, (writes[-1] - writes[0]) / steps)
        note("last", answer.ttft_s + answer.tpot_s * steps, writes[-1] - sent_s)


def timeline(url: str) -> list[dict]:
    with urllib.request.urlopen(url + "/timeline", timeout=30) as answer:
        return json.load(answer)


def figures(short: Cost, long: Cost) -> dict:
    errors = {
        f"{name}_error_p{round(100 * p)}_ms": quantile(long.errors_ms.get(name, []), p)
        for name in ("ttft", "ttfr", "gap", "tpot", "last")
        for p in (0.5, 0.99)
    }
    return errors | {
        "cpu_us_per_token": (long.cpu_s - short.cpu_s) / (long.tokens - short.tokens) * 1e6,
        "cpu_start_s": (short.cpu_start_s + long.cpu_start_s) / 2,
        "first_request_s": (short.first_request_s + long.first_request_s) / 2,
        "tree_mib": long.tree_mib,
        "worker_mib": long.worker_mib,
        "answers_compared": len(long.errors_ms.get("ttft", [])),
        "gaps_compared": len(long.errors_ms.get("gap", [])),
        "tokens": long.tokens,
    }


def stop_in_order() -> None:
    """Let a signal end what was started, also where a shell had it ignored."""

    def interrupt(_number, _frame) -> None:
        raise KeyboardInterrupt

    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, interrupt)


def main() -> None:
    options = arguments()
    stop_in_order()
    clients = {name: CLIENTS[name] for name in options.client or CLIENTS}
    clients |= {name: PEERS[name](python, options.tokenizer) for name, python in options.peer}
    found = {}
    for streams, rate in options.load:
        found[f"{streams} x {rate:g}"] = measure(clients, streams, rate, options)
    if options.json:
        options.json.write_text(json.dumps({"loads": found}, indent=1))
    for load, rows in found.items():
        streams, _, rate = load.partition(" x ")
        print(f"\n## {streams} streams, {rate} tokens a second each\n")
        show(rows)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", action="append", choices=CLIENTS, help="all by default")
    parser.add_argument("--peer", action="append", type=peer, default=[], metavar="NAME=PYTHON")
    parser.add_argument("--tokenizer", type=existing, help="a folder with one, for the peers")
    parser.add_argument("--load", action="append", type=load_of, metavar="STREAMSxRATE")
    parser.add_argument("--seconds", type=float, default=2.5, help="of one answer")
    parser.add_argument("--rounds", type=int, default=8, help="requests of a stream, long run")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--lockstep", action="store_true", help="all streams write at once")
    parser.add_argument("--json", type=Path, help="where every figure goes")
    options = parser.parse_args()
    options.load = options.load or [(16, 100.0), (64, 20.0)]
    if options.peer and options.tokenizer is None:
        parser.error("--peer: needs --tokenizer")
    return options


def peer(text: str) -> tuple[str, Path]:
    name, _, python = text.partition("=")
    if name not in PEERS or not python:
        raise argparse.ArgumentTypeError(f"{text}: a name of {', '.join(PEERS)}, and a Python")
    return name, existing(python)


def existing(text: str) -> Path:
    """Absolute: a peer runs in a folder of its own."""
    if not Path(text).exists():
        raise argparse.ArgumentTypeError(f"{text}: no such file or folder")
    return Path(text).absolute()


def load_of(text: str) -> tuple[int, float]:
    streams, _, rate = text.partition("x")
    return int(streams), float(rate)


def measure(clients: dict, streams: int, rate: float, options: argparse.Namespace) -> list[dict]:
    """A row a client and turn."""
    tokens = round(rate * options.seconds)
    command = [sys.executable, str(MOCK), "--rate", str(rate)]
    command += ["--lockstep"] if options.lockstep else []
    rows = []
    for turn in range(options.repeat):
        for name in list(clients)[:: -1 if turn % 2 else 1]:
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mock:
                try:
                    url = mock.stdout.readline().strip()
                    short, long = (
                        run(clients[name], Load(url, streams, streams * rounds, tokens))
                        for rounds in (1, options.rounds)
                    )
                finally:
                    mock.kill()
            rows.append({"client": name, "turn": turn, **figures(short, long)})
            took = f"{rows[-1]['cpu_us_per_token']:.1f} us a token"
            print(f"{streams} x {rate:g}, turn {turn + 1}, {name}: {took}", file=sys.stderr)
    return rows


def show(rows: list[dict]) -> None:
    names = list(dict.fromkeys(row["client"] for row in rows))
    by_name = {name: sorted((row for row in rows if row["client"] == name),
                            key=lambda row: row["turn"]) for name in names}  # fmt: skip
    print(f"Median (range) of {len(by_name[names[0]])} turns:\n")
    print(
        table(
            ["", *names],
            [
                [words, *(spread([row[key] for row in by_name[name]]) for name in names)]
                for key, words in FIGURES.items()
            ],
        )
    )
    others = [name for name in names if name != OURS] if OURS in names else []
    if others:
        print(f"Ratio to {OURS} within a turn, geometric mean (95 % interval):\n")
        print(table(["", *others], [ratio_row(by_name, others, key) for key in RATIOS]))


def ratio_row(by_name: dict, others: list[str], key: str) -> list[str]:
    cells = [FIGURES[key]]
    for name in others:
        pairs = zip(by_name[name], by_name[OURS], strict=True)
        found = ratio([(theirs[key], ours[key]) for theirs, ours in pairs])
        cells.append("not told" if found is None else str(found))
    return cells


if __name__ == "__main__":
    main()
