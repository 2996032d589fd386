"""What the agent costs a device that it only watches: telemetry every second, over each transport.

The real ``edgesweep-agent serve`` with all sensors of this box and its spool, the real
``edgesweep-collector serve``, and for MQTT a real mosquitto. Figures are those of the agent's
process and its children: the resident set looked at every second, processor time, and bytes that
it caused the block layer to write (``write_bytes`` in ``/proc/PID/io``; on a tmpfs there are none,
and that is said). What the file system's journal adds is not among them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

import anyio
from ratios import table

from edgesweep_agent import control
from edgesweep_agent.errors import DaemonError
from mosquitto import BINARY, free_port, running_mosquitto

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BIN = Path(sys.executable).parent
DAY_S = 86_400
MIB = 2**20
AGENT = """\
telemetry_s = {telemetry_s}
[device]
id = "bench-1"
[spool]
path = "spool.db"
[control]
socket = "agent.sock"
[log]
level = "warning"
[uplink]
"""
UPLINKS = {
    "mqtt": 'kind = "mqtt"\nhost = "127.0.0.1"\nport = {port}\n',
    "grpc": 'kind = "grpc"\naddress = "127.0.0.1:{port}"\n',
}
COLLECTOR = """\
[archive]
url = "sqlite:///archive.db"
[log]
level = "warning"
"""
INGEST = {
    "mqtt": '[mqtt]\nhost = "127.0.0.1"\nport = {port}\n',
    "grpc": '[grpc]\nlisten = "127.0.0.1:{port}"\n',
}


@dataclass(frozen=True)
class Cost:
    """What the agent took over one transport."""

    rss_mib: float
    rss_peak_mib: float
    cpu_percent: float
    written_mb_a_day: float
    delivered: int
    waiting: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="of each transport")
    parser.add_argument("--settle", type=float, default=20.0, help="seconds before it is looked at")
    parser.add_argument("--telemetry", type=float, default=1.0, help="seconds between readings")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    kinds = [kind for kind in UPLINKS if kind != "mqtt" or os.access(BINARY, os.X_OK)]
    found = {kind: cost_of(kind, asked) for kind in kinds}
    print(page(found))
    if asked.json:
        asked.json.write_text(json.dumps({kind: asdict(cost) for kind, cost in found.items()}))


def cost_of(kind: str, asked: argparse.Namespace) -> Cost:
    """One agent from its start to its end, with a collector of its own."""
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder, contextlib.ExitStack() as stack:
        root = Path(folder)
        port = stack.enter_context(running_mosquitto(root)).port if kind == "mqtt" else free_port()
        (root / "collector.toml").write_text(COLLECTOR + INGEST[kind].format(port=port))
        text = AGENT.format(telemetry_s=asked.telemetry) + UPLINKS[kind].format(port=port)
        (root / "agent.toml").write_text(text)
        stack.enter_context(serving("edgesweep-collector", root / "collector.toml"))
        agent = stack.enter_context(serving("edgesweep-agent", root / "agent.toml"))
        until(lambda: report(root) is not None, "the agent does not answer")
        time.sleep(asked.settle)
        return watched(agent, root, asked.minutes * 60)


def watched(agent: psutil.Process, root: Path, within_s: float) -> Cost:
    """Look at it every second for so long."""
    before, began_s = spent(agent), time.monotonic()
    resident = []
    while time.monotonic() - began_s < within_s:
        resident.append(sum(one.memory_info().rss for one in family(agent)) / MIB)
        time.sleep(1)
    took_s = time.monotonic() - began_s
    after, told = spent(agent), report(root)
    if told is None:
        raise SystemExit("the agent does not answer any more")
    return Cost(
        rss_mib=statistics.median(resident),
        rss_peak_mib=max(resident),
        cpu_percent=(after[0] - before[0]) / took_s * 100,
        written_mb_a_day=(after[1] - before[1]) / took_s * DAY_S / 1e6,
        delivered=told.made - told.rows,
        waiting=told.rows,
    )


def spent(agent: psutil.Process) -> tuple[float, int]:
    """Processor seconds, and bytes written to the disk."""
    cpu_s, written = 0.0, 0
    for one in family(agent):
        times = one.cpu_times()
        cpu_s += times.user + times.system
        written += one.io_counters().write_bytes
    return cpu_s, written


def family(agent: psutil.Process) -> list[psutil.Process]:
    return [agent, *agent.children(recursive=True)]


@contextlib.contextmanager
def serving(program: str, config: Path) -> Iterator[psutil.Process]:
    """One of our daemons, asked to end when it is no longer wanted."""
    with config.with_suffix(".log").open("wb") as log:
        child = subprocess.Popen(
            [BIN / program, "serve", "--config", config], stdout=log, stderr=log
        )
    try:
        yield psutil.Process(child.pid)
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(30)


def report(root: Path) -> control.Report | None:
    """What the daemon says of its spool."""
    with contextlib.suppress(DaemonError):
        return anyio.run(control.status, root / "agent.sock")
    return None


def until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(otherwise)
        time.sleep(0.1)


def page(found: dict[str, Cost]) -> str:
    """The table."""
    cells = {
        "resident, median (peak), MiB": lambda c: f"{c.rss_mib:.1f} ({c.rss_peak_mib:.1f})",
        "of one core, %": lambda c: f"{c.cpu_percent:.2f}",
        "written a day, MB": lambda c: f"{c.written_mb_a_day:.0f}",
        "records delivered; waiting": lambda c: f"{c.delivered}; {c.waiting}",
    }
    rows = [[words, *(cell(cost) for cost in found.values())] for words, cell in cells.items()]
    return table(["", *found], rows)


if __name__ == "__main__":
    main()
