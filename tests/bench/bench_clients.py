"""What a client of the cost comparison is: a command for a URL, and how to read what it saved."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Load:
    """What every client is asked to do."""

    url: str
    streams: int
    requests: int
    tokens: int


@dataclass(frozen=True)
class Timed:
    """One answer as a client timed it; ``number`` is the request's in the mock's account."""

    number: int
    t_send_ns: int | None
    ttft_s: float
    gaps_s: list[float]


class Sweep:
    """``edgesweep-agent sweep``: everything a user runs, its command line included."""

    worker = "edgesweep_agent.loadgen"

    def argv(self, load: Load, folder: Path) -> list[str]:
        agent = Path(sys.executable).parent / "edgesweep-agent"
        options = ["--url", load.url, "--levels", str(load.streams), "--keep-text"]
        options += ["--requests", str(load.requests), "--output-tokens", str(load.tokens)]
        return [str(agent), "sweep", *options, "--samples", str(folder / "samples.jsonl")]

    def read(self, folder: Path) -> list[Timed]:
        lines = (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
        return [
            Timed(int(s["text"].split()[0]), s["t_send_ns"], s["ttft_s"], s["icl_s"])
            for s in map(json.loads, lines)
        ]


class LoadGenerator(Sweep):
    """The load generator and the reading of what it saw, without the rest of the agent."""

    def argv(self, load: Load, folder: Path) -> list[str]:
        script = Path(__file__).with_name("bench_loadgen.py")
        sizes = [str(load.streams), str(load.requests), str(load.tokens)]
        return [sys.executable, str(script), load.url, *sizes, str(folder / "samples.jsonl")]


class Httpx(Sweep):
    """What one would write by hand: httpx, a task a stream, ``json.loads`` of each line."""

    worker = "bench_httpx"

    def argv(self, load: Load, folder: Path) -> list[str]:
        script = Path(__file__).with_name("bench_httpx.py")
        sizes = [str(load.streams), str(load.requests), str(load.tokens)]
        return [sys.executable, str(script), load.url, *sizes, str(folder / "samples.jsonl")]


CLIENTS = {"edgesweep": Sweep(), "loadgen": LoadGenerator(), "httpx": Httpx()}
