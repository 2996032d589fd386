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
    """One answer as a client timed it.

    Attributes:
        key: The answer's text, or the request's ``X-Request-ID`` where no text is kept.
        t_send_ns: When the client sent it, on the monotonic clock.
        ttfr_s: Until the first chunk of any kind; ``None`` if the client does not say.
        ttft_s: Until the first chunk with text.
        gaps_s: Between chunks with text; empty if the client keeps only ``tpot_s``.
        tpot_s: From first to last text, a token after the first; ``None`` if it does not say.
    """

    key: str
    t_send_ns: int
    ttfr_s: float | None
    ttft_s: float
    gaps_s: list[float]
    tpot_s: float | None


class Sweep:
    """``edgesweep-agent sweep``: everything a user runs, its command line included."""

    worker = "edgesweep_agent.loadgen"
    environment: dict[str, str] = {}  # noqa: RUF012 - read alone

    def argv(self, load: Load, folder: Path) -> list[str]:
        agent = Path(sys.executable).parent / "edgesweep-agent"
        options = ["--url", load.url, "--levels", str(load.streams), "--keep-text"]
        options += ["--requests", str(load.requests), "--output-tokens", str(load.tokens)]
        options += ["--budget", "1h", "--state", str(folder)]
        return [str(agent), "sweep", *options, "--samples", str(folder / "samples.jsonl")]

    def read(self, folder: Path) -> list[Timed]:
        lines = (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
        return [_timed(sample) for sample in map(json.loads, lines)]


class LoadGenerator(Sweep):
    """The load generator and the reading of what it saw, without the rest of the agent."""

    script = "bench_loadgen.py"

    def argv(self, load: Load, folder: Path) -> list[str]:
        script = Path(__file__).with_name(self.script)
        sizes = [str(load.streams), str(load.requests), str(load.tokens)]
        return [sys.executable, str(script), load.url, *sizes, str(folder / "samples.jsonl")]


class Httpx(LoadGenerator):
    """What one would write by hand: httpx, a task a stream, ``json.loads`` of each line."""

    worker = script = "bench_httpx.py"


def _timed(sample: dict) -> Timed:
    gaps_s = sample["icl_s"]
    tpot_s = sum(gaps_s) / len(gaps_s) if gaps_s else None
    text, t_send_ns = sample["text"], sample["t_send_ns"]
    return Timed(text, t_send_ns, sample.get("ttfr_s"), sample["ttft_s"], gaps_s, tpot_s)


CLIENTS = {"edgesweep": Sweep(), "loadgen": LoadGenerator(), "httpx": Httpx()}
