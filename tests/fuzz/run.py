"""Feeds everything that reads what others wrote with what nobody should have written.

Real samples with damage, and structured inputs of hostile texts and numbers, a million for each
target; each in a process of its own, all of them made again by the seed. No error but the declared
ones, no input that takes two seconds of processor time, no memory that grows with their number;
what is written is read back where there is something to read it with. ``make fuzz``, or by hand:

    python tests/fuzz/run.py --inputs 20000 --seed 7 --target lines --target sse
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TARGETS = (
    "ingest", "lines", "agent-settings", "collector-settings", "plans", "sse", "carried", "events",
)  # fmt: skip
KEPT = Path("build/fuzz")
_SHOWN = 8


def fuzzed(name: str, inputs: int, seed: int) -> bool:
    """Whether a target bore all of it; says what came of them."""
    command = [sys.executable, str(HERE / "worker.py"), name, str(inputs), str(seed), str(KEPT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{name}: FAILED with exit code {done.returncode}\n{done.stderr}", flush=True)
        return False
    facts = json.loads(done.stdout.splitlines()[-1])
    outcomes = sorted(facts["outcomes"].items(), key=lambda one: -one[1])
    told = ", ".join(f"{word} {count}" for word, count in outcomes[:_SHOWN])
    if len(outcomes) > _SHOWN:
        told += f", {len(outcomes) - _SHOWN} more"
    print(
        f"{name}: {facts['inputs']} inputs, {facts['rate_per_s']:.0f}/s, slowest "
        f"{facts['slowest_s'] * 1e3:.1f} ms, grown by {facts['growth_mib']:.1f} MiB\n    {told}",
        flush=True,
    )
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--target", action="append", choices=TARGETS, default=None)
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    bore = [fuzzed(name, asked.inputs, seed) for name in asked.target or TARGETS]
    return 0 if all(bore) else 1


if __name__ == "__main__":
    sys.exit(main())
