"""Does the collector's memory stand still under a fleet, and how long do acks take meanwhile?

Simulated devices deliver over a real broker to a real collector. Its resident set is looked at
every second. The first quarter does not count: caches fill, and the fleet joins. What is told is
the slope of the rest with an interval that holds for samples that depend on each other, and the
time from a record's first sending to its ack. It fails if the slope is above what is noise with
95 % confidence, or if a record was not acknowledged.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from slope import slope
from stand import MISSING, Load, add_rates, collecting, simulating

KIB, MIB = 1024, 2**20
SAMPLE_S = 1.0
SETTLING = 0.25
NOISE_KIB_PER_S = 0.5
"""Such a rise is 43 MB a day; page caches of the archive and the allocator make less of it."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", type=float, default=NOISE_KIB_PER_S, metavar="KIB_PER_S")
    parser.add_argument("--samples", type=Path, metavar="FILE", help="for seconds and bytes")
    add_rates(parser, "10s")
    asked = parser.parse_args()
    if MISSING:
        print(MISSING)
        return 0
    load = Load(asked.devices, asked.minutes * 60, asked.telemetry, asked.heartbeat, asked.seed)
    points, facts = soaked(load)
    if asked.samples:
        asked.samples.write_text("".join(f"{at_s:.3f}\t{rss}\n" for at_s, rss in points))
    try:
        return told(points, facts, asked.noise)
    except ValueError as error:
        print(f"{error}: give it more minutes")
        return 1


def soaked(load: Load) -> tuple[list[tuple[float, int]], dict]:
    """The collector's resident set by the second, in bytes, and what the fleet says."""
    points = []
    with collecting() as (collector, root), simulating(root, load) as fleet:
        begun_s = time.monotonic()
        while not fleet.is_over:
            now_s = time.monotonic() - begun_s
            points.append((now_s, collector.rss_bytes))
            time.sleep(max(0.0, len(points) * SAMPLE_S - now_s))
        facts = fleet.facts()
        return points, facts | {"stored": round(collector.metric("edgesweep_stored_total"))}


def told(points: list[tuple[float, int]], facts: dict, noise_kib_per_s: float) -> int:
    """Say what came of it; the exit code."""
    rest = [point for point in points if point[0] >= SETTLING * points[-1][0]]
    value, low, high = (one / KIB for one in slope(rest))
    first, last = rest[0][1] / MIB, rest[-1][1] / MIB
    print(
        f"memory {first:.1f} to {last:.1f} MiB in {rest[-1][0] - rest[0][0]:.0f} s, "
        f"slope {value:.3f} KiB/s ({low:.3f} to {high:.3f}, 95 %; noise {noise_kib_per_s:g})"
    )
    print(f"ack p50 {facts['ack_p50_s'] * 1e3:.1f} ms, p99 {facts['ack_p99_s'] * 1e3:.1f} ms")
    print(" ".join(f"{name} {facts[name]}" for name in ("made", "stored", "acked", "resent")))
    rises = low > noise_kib_per_s
    if rises:
        print("FAILED: memory rises")
    is_whole = facts["made"] == facts["acked"] == facts["stored"]
    if not is_whole:
        print("FAILED: not all that was made was stored and acknowledged")
    return 0 if is_whole and not rises else 1


if __name__ == "__main__":
    sys.exit(main())
