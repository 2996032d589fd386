"""How far the times of a sweep are from the instants at which the server wrote.

Runs `edgesweep-agent sweep --samples` against the scripted engine in a process of its own, which
notes the monotonic instant of each of its writes, and prints the error of TTFT and of TPOT. With
`--busy N`, beside N processes that never rest, as an engine on the same cores would be.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from engine_server import engine_process

AGENT = Path(sys.executable).parent / "edgesweep-agent"
LEVELS = {1: 64, 4: 64, 16: 128}
TOKENS = 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", type=int, default=0, help="processes that never rest")
    busy = parser.parse_args().busy
    print(f"{'level':>5} {'n':>4} {'TTFT median':>12} {'p95':>7} {'max':>7}   TPOT p95 (ms)")
    with ExitStack() as stack:
        for _ in range(busy):
            hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(hog.kill)
        for concurrency, requests in LEVELS.items():
            ttft, tpot = measure(concurrency, requests)
            print(
                f"{concurrency:5} {len(ttft):4} {statistics.median(ttft):12.3f} "
                f"{p95(ttft):7.3f} {max(ttft):7.3f}   {p95(tpot):.3f}"
            )


def measure(concurrency: int, requests: int) -> tuple[list[float], list[float]]:
    """Errors of TTFT and TPOT in milliseconds, a value a request."""
    with (
        tempfile.TemporaryDirectory() as folder,
        engine_process("--ttft-ms", "40", "--tpot-ms", "6") as engine,
    ):
        path = Path(folder) / "samples.jsonl"
        command = [AGENT, "sweep", "--url", engine.url, "--levels", str(concurrency)]
        command += ["--requests", str(requests), "--output-tokens", str(TOKENS)]
        subprocess.run(
            [*command, "--samples", path], check=True, stdout=subprocess.DEVNULL, timeout=120
        )
        samples = [json.loads(line) for line in path.read_text().splitlines()]
        seen = engine.get("/timeline")[-requests:]
    samples.sort(key=lambda sample: sample["t_send_ns"])
    pairs = zip(samples, sorted(seen, key=lambda one: one["received_ns"]), strict=True)
    errors = [error(sample, [t for t, kind in one["writes"] if kind == "text"])
              for sample, one in pairs]  # fmt: skip
    return [ttft for ttft, _ in errors], [tpot for _, tpot in errors]


def error(sample: dict, writes: list[int]) -> tuple[float, float]:
    assert sample["output_tokens"] == TOKENS
    ttft = sample["ttft_s"] - (writes[0] - sample["t_send_ns"]) / 1e9
    tpot = sample["tpot_s"] - (writes[-1] - writes[0]) / (TOKENS - 1) / 1e9
    return abs(ttft) * 1e3, abs(tpot) * 1e3


def p95(values: list[float]) -> float:
    return sorted(values)[round(0.95 * (len(values) - 1))]


if __name__ == "__main__":
    main()
