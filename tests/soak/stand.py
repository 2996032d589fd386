"""What the soak and the scale test stand on: a broker, a collector, a fleet that is not there."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from collectors import BROKER, MAIN, Collector, environment, serving
from mosquitto import BINARY, running_mosquitto

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

MISSING = (
    ""
    if Path(BINARY).exists()
    else "mosquitto is not installed, nothing is measured: apt-get install mosquitto"
)


@dataclass(frozen=True)
class Load:
    """A fleet: how many devices, for how long, and how often each of them says something."""

    devices: int
    duration_s: float
    telemetry: str
    heartbeat: str
    seed: int = 1
    faults: bool = True

    @property
    def options(self) -> list[str]:
        """Of ``simulate``."""
        quiet = [] if self.faults else ["--no-faults", "--regression", "none"]
        return [
            "--devices", str(self.devices), "--duration", f"{self.duration_s:g}s",
            "--telemetry", self.telemetry, "--heartbeat", self.heartbeat,
            "--seed", str(self.seed), *quiet,
        ]  # fmt: skip


class Fleet:
    """A simulation that runs.

    Args:
        child: Its process.
        said: What it printed on its standard output.
    """

    def __init__(self, child: subprocess.Popen, said: Path) -> None:
        self.child = child
        self.process = psutil.Process(child.pid)
        self._said = said

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.child.poll() is not None

    def facts(self) -> dict:
        """What it says at its end, as ``simulate --json`` does.

        Raises:
            SystemExit: it failed in another way than for want of acks.
        """
        self.child.wait()
        if self.child.returncode not in {0, 1} or not self._said.stat().st_size:
            raise SystemExit(f"the simulation failed with {self.child.returncode}")
        return json.loads(self._said.read_text())


@contextlib.contextmanager
def collecting() -> Iterator[tuple[Collector, Path]]:
    """A collector with a broker and an archive of its own, and its folder."""
    # Each device is a socket of the broker, which gets our limit.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        root = Path(folder)
        with (
            running_mosquitto(root, BROKER) as broker,
            serving(root, broker.port) as collector,
        ):
            yield collector, root


@contextlib.contextmanager
def simulating(root: Path, load: Load) -> Iterator[Fleet]:
    """The devices of a load, at the collector whose folder that is; its progress is shown."""
    said = root / "simulated.json"
    command = [sys.executable, *MAIN, "simulate", "--config", str(root / "collector.toml")]
    with said.open("wb") as output:
        child = subprocess.Popen(
            [*command, "--json", *load.options], stdout=output, env=environment()
        )
    try:
        yield Fleet(child, said)
    finally:
        child.kill()
        child.wait()


def add_rates(parser: argparse.ArgumentParser, every: str) -> None:
    """How often each device says something."""
    parser.add_argument("--telemetry", default=every, metavar="T")
    parser.add_argument("--heartbeat", default=every, metavar="T")
