"""What one collector takes as the fleet grows: records a second, acks, and whose processor is full.

Each row is a fleet of its own at a collector of its own. The simulation is one process and may be
full before the collector is: the processors of both are told, and the last line says which it was.
The knee is the first fleet of whose records a second less than nine tenths are taken.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
sys.path.insert(0, str(Path(__file__).parent))

from ratios import table
from stand import MISSING, Load, add_rates, collecting, simulating

from collectors import cpu_s

DEVICES = [25, 50, 100, 200, 400, 800, 1200, 1600]
TAKEN_SHARE = 0.9
FULL_SHARE = 0.85
LOOK_S = 0.1
HEADS = [
    "devices", "records/s", "made/s", "ack p50, ms", "ack p99, ms", "collector CPU", "fleet CPU"
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What came of one fleet; shares are of one processor.

    Attributes:
        taken_per_s: Records that the collector stored while the fleet lived.
        made_per_s: What the fleet would have liked it to store.
    """

    devices: int
    taken_per_s: float
    made_per_s: float
    p50_s: float
    p99_s: float
    collector_share: float
    fleet_share: float

    @property
    def cells(self) -> list[str]:
        """As text."""
        acks = [f"{value * 1e3:.1f}" for value in (self.p50_s, self.p99_s)]
        shares = [f"{share:.0%}" for share in (self.collector_share, self.fleet_share)]
        rates = [f"{rate:.0f}" for rate in (self.taken_per_s, self.made_per_s)]
        return [str(self.devices), *rates, *acks, *shares]

    @property
    def is_behind(self) -> bool:
        """Whether more comes than is taken."""
        return self.taken_per_s < TAKEN_SHARE * self.made_per_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, nargs="+", default=DEVICES)
    parser.add_argument("--seconds", type=float, default=20.0)
    add_rates(parser, "1s")
    asked = parser.parse_args()
    if MISSING:
        print(MISSING)
        return 0
    rows = []
    for devices in asked.devices:
        load = Load(devices, asked.seconds, asked.telemetry, asked.heartbeat, faults=False)
        rows.append(measured(load))
        print(f"{devices} devices: {rows[-1]}", file=sys.stderr, flush=True)
    print(table(HEADS, [row.cells for row in rows]), end="")
    print(knee(rows))
    return 0


def measured(load: Load) -> Row:
    """One fleet from its beginning to its last ack."""
    looks = []
    with collecting() as (collector, root), simulating(root, load) as fleet:
        while not fleet.is_over:
            with contextlib.suppress(psutil.Error):
                looks.append((time.monotonic(), collector.cpu_s, cpu_s(fleet.process)))
            time.sleep(LOOK_S)
        facts, stored = fleet.facts(), collector.metric("edgesweep_stored_total")
    # What the simulation did before, to begin, does not count.
    lived = [look for look in looks if look[0] >= looks[-1][0] - facts["took_s"]]
    shares = [(lived[-1][n] - lived[0][n]) / (lived[-1][0] - lived[0][0]) for n in (1, 2)]
    return Row(
        devices=load.devices,
        taken_per_s=stored / facts["took_s"],
        made_per_s=facts["made"] / load.duration_s,
        p50_s=facts["ack_p50_s"],
        p99_s=facts["ack_p99_s"],
        collector_share=shares[0],
        fleet_share=shares[1],
    )


def knee(rows: list[Row]) -> str:
    """Where it bends, and whose limit that is."""
    found = next((row for row in rows if row.is_behind), None)
    if found is None:
        return f"no knee up to {rows[-1].devices} devices: all that was made was taken"
    if found.collector_share >= FULL_SHARE:
        why = "the collector's processor is full"
    elif found.fleet_share >= FULL_SHARE:
        why = "the simulation's processor is full, not the collector's"
    else:
        why = "no processor of theirs is full: the disk, or others on this machine"
    return (
        f"knee at {found.devices} devices: {found.taken_per_s:.0f} of {found.made_per_s:.0f} "
        f"records/s are taken; {why}"
    )


if __name__ == "__main__":
    sys.exit(main())
