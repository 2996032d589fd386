"""One target in a process of its own: TARGET INPUTS SEED FOLDER. Prints what came of it as JSON.

The first input that crashes, hangs or grows memory ends it with exit code 1, is kept in FOLDER, and
is named on stderr with the traceback.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import pickle
import random
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil
from targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from targets import Target

WITHIN_S = 2.0
"""One input may take so much processor time; what else the machine does is not its fault."""
STUCK_S = 300.0
"""Where not even a signal is heard for so many inputs, the process ends itself."""
GROWTH_BYTES = 96 * 2**20
LOOK_EVERY = 2000


class HangError(Exception):
    """An input took too long."""


class GrowthError(Exception):
    """Memory grew with the number of inputs."""


def _hung(*_: object) -> NoReturn:
    raise HangError(f"more than {WITHIN_S} s of processor time")


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Raise in whatever takes too long."""
    signal.setitimer(signal.ITIMER_PROF, WITHIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> int:
    name, inputs, seed, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    target = TARGETS[name]
    signal.signal(signal.SIGPROF, _hung)
    outcomes: Counter[str] = Counter()
    process, start_bytes, slowest_s = psutil.Process(), 0, 0.0
    begun_s = time.perf_counter()
    for number in range(inputs):
        if number % LOOK_EVERY == 0:
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
            size = process.memory_info().rss
            # What is loaded and kept on purpose is there after the first look.
            start_bytes = size if number <= LOOK_EVERY else start_bytes
        # Each input has a seed of its own, so that one alone can be made again.
        given = target.make(random.Random(f"{name} {seed} {number}"))
        at_s = time.perf_counter()
        try:
            outcomes[_tried(target, given, size - start_bytes)] += 1
        except Exception:  # noqa: BLE001 -- to find those is what this is for
            return _failed(name, seed, number, given, folder)
        slowest_s = max(slowest_s, time.perf_counter() - at_s)
    faulthandler.cancel_dump_traceback_later()
    took_s = time.perf_counter() - begun_s
    grown = process.memory_info().rss - start_bytes
    facts = {
        "inputs": inputs,
        "outcomes": dict(outcomes.most_common()),
        "rate_per_s": inputs / took_s,
        "slowest_s": slowest_s,
        "growth_mib": max(0, grown) / 2**20,
    }
    print(json.dumps(facts))
    return 0


def _tried(target: Target, given: Any, grown: int) -> str:
    """What came of an input; the name of the error if it is one that the target declares."""
    if grown > GROWTH_BYTES:
        raise GrowthError(f"{grown / 2**20:.0f} MiB")
    try:
        with bounded():
            return target.run(given)
    except target.declared as error:
        return type(error).__name__


def _failed(name: str, seed: int, number: int, given: Any, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{name}-{seed}-{number}.pickle"
    kept.write_bytes(pickle.dumps(given))
    traceback.print_exc()
    told = f"{given!r}"[:2000]
    print(f"{name}: input {number} of seed {seed}, kept in {kept}:\n{told}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
