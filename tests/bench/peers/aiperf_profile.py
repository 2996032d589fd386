"""``aiperf profile``: AIPerf of NVIDIA, without its own collecting of server and GPU metrics."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from bench_clients import Load, Timed

if TYPE_CHECKING:
    from pathlib import Path


class AiperfProfile:
    """Its records have wall-clock times, the gaps between chunks with text, and no text."""

    worker = "aiperf"
    # Offline, it takes the tokenizer's folder for the name of a repository.
    environment = {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}  # noqa: RUF012

    def __init__(self, python: Path, tokenizer: Path) -> None:
        self._program, self._tokenizer = python.parent / "aiperf", tokenizer

    def argv(self, load: Load, folder: Path) -> list[str]:
        options = ["--url", load.url, "--model", "mock", "--endpoint-type", "chat", "--streaming"]
        options += ["--tokenizer", str(self._tokenizer), "--use-server-token-count"]
        options += ["--concurrency", str(load.streams), "--request-count", str(load.requests)]
        options += ["--synthetic-input-tokens-mean", "16", "--synthetic-input-tokens-stddev", "0"]
        options += ["--output-tokens-mean", str(load.tokens), "--output-tokens-stddev", "0"]
        options += ["--extra-inputs", "ignore_eos:true", "--no-gpu-telemetry"]
        options += ["--no-server-metrics", "--ui", "none", "--output-artifact-dir", str(folder)]
        return [str(self._program), "profile", *options]

    def read(self, folder: Path) -> list[Timed]:
        wall_less_monotonic_ns = time.time_ns() - time.monotonic_ns()
        lines = (folder / "profile_export.jsonl").read_text(encoding="utf-8").splitlines()
        return [_timed(json.loads(line), wall_less_monotonic_ns) for line in lines]


def _timed(record: dict, wall_less_monotonic_ns: int) -> Timed:
    metadata, metrics = record["metadata"], record["metrics"]
    gaps_s = [gap / 1e3 for gap in metrics["inter_chunk_latency"]["value"]]
    return Timed(
        key=metadata["x_request_id"],
        t_send_ns=metadata["request_start_ns"] - wall_less_monotonic_ns,
        ttfr_s=None,
        ttft_s=metrics["time_to_first_token"]["value"] / 1e3,
        gaps_s=gaps_s,
        tpot_s=sum(gaps_s) / len(gaps_s),
    )
