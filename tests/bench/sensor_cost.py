"""What it costs to watch this box: processor time of the sampler at 1 Hz and within a window.

Prints it as a share of one core, and what each sensor takes for a read.
"""

from __future__ import annotations

import argparse
import statistics
import time

from edgesweep_agent.sensors.base import State
from edgesweep_agent.sensors.registry import PROGRAMS, all_sensors, close_all
from edgesweep_agent.sensors.sampler import Sampler

READS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each of the two paces")
    parser.add_argument("--programs", action="store_true", help="with jtop and tegrastats too")
    given = parser.parse_args()
    sensors = all_sensors(without=() if given.programs else PROGRAMS)
    try:
        of_each(sensors)
        with Sampler(sensors) as sampler:
            time.sleep(1.5)
            print(f"\n{len(sampler.latest())} readings; up: {sampler.up()}")
            print(f"everything at 1 Hz          {share(given.seconds):6.2f} % of a core")
            sampler.fast(True)
            print(f"and the fast ones at 10 Hz  {share(given.seconds):6.2f} % of a core")
    finally:
        close_all(sensors)


def of_each(sensors) -> None:
    print(f"{'sensor':20} {'values':>6} {'ms a read':>10}")
    for sensor in sensors:
        took = []
        for _ in range(READS):
            began = time.thread_time()
            readings = sensor.read()
            took.append((time.thread_time() - began) * 1e3)
        values = sum(one.state is State.OK for one in readings)
        fast = "  (fast)" if sensor.fast else ""
        print(f"{sensor.name:20} {values:6} {statistics.median(took):10.3f}{fast}")


def share(seconds: float) -> float:
    """Percent of one core that this process takes."""
    before = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - before) / seconds * 100


if __name__ == "__main__":
    main()
