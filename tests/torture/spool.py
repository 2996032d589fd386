"""Tries to make a spool break its promises, and prints what came of it.

Every key that ``append`` returned is found after reopening, was delivered, or a collector is told
not to wait for it; no record is doubled or invented, and no number is given out twice.

    python tests/torture/spool.py --kills 500 --torn 200 --truncated 200 --flips 200 --seed 1
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))

import damage
import full
import kills
import power


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, count in (("kills", 500), ("torn", 200), ("truncated", 200), ("flips", 200)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--power", type=int, default=100, help="power cuts")
    parser.add_argument("--full", type=int, default=5, help="disks that fill up")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    # What broke a promise stays to be looked at.
    root = Path(tempfile.mkdtemp(prefix="edgesweep-torture-"))
    torture(root, given)
    shutil.rmtree(root)


def torture(root: Path, given) -> None:
    parts = {
        "torn": lambda dice: damage.run(root, given.torn, dice, damage.torn),
        "truncated": lambda dice: damage.run(root, given.truncated, dice, damage.truncated),
        "flips": lambda dice: damage.run(root, given.flips, dice, damage.flipped),
        "full": lambda dice: full.run(root, given.full, dice),
        "power": lambda dice: power.run(root, given.power, dice),
        "kills": lambda dice: kills.run(root, given.kills, dice),
    }
    for name, part in parts.items():
        began = time.monotonic()
        came = part(random.Random(f"{given.seed} {name}"))
        print(f"{name:10} {came} ({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
