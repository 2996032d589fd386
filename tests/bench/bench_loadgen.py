"""The load generator alone, for the cost comparison: URL STREAMS REQUESTS TOKENS FILE."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from edgesweep_agent.core.stream import to_sample
from edgesweep_agent.loadgen.client import run_level
from load_levels import body, job


def main() -> None:
    url, streams, requests, tokens, path = sys.argv[1:]
    bodies = [body(n, int(tokens)) for n in range(int(requests))]
    level = job(url, bodies=bodies, concurrency=int(streams))
    outcome = anyio.run(run_level, level)
    with Path(path).open("w", encoding="utf-8") as file:
        for exchange in outcome.exchanges:
            sample = to_sample(exchange, concurrency=int(streams), keep_text=True)
            names = ("text", "t_send_ns", "ttfr_s", "ttft_s", "icl_s")
            file.write(json.dumps({name: getattr(sample, name) for name in names}) + "\n")


if __name__ == "__main__":
    main()
