"""A real collector as a process: started, looked at, and asked to end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import psutil

from mosquitto import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAIN = ("-c", "from edgesweep_collector.cli import main; main()")
UP_WITHIN_S = 30.0
_CONFIG = """\
[archive]
url = "sqlite:///archive.db"
[mqtt]
host = "127.0.0.1"
port = {port}
[http]
listen = "127.0.0.1:{http}"
[log]
level = "warning"
"""
# Nothing is to be lost on the way to a bridge that is slower than its publisher; and Nagle's
# algorithm would hold an ack back for 40 ms behind the PUBACK before it.
BROKER = """\
allow_anonymous true
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
"""


@dataclass(frozen=True)
class Collector:
    """One that serves.

    Attributes:
        url: Of its HTTP pages.
    """

    process: psutil.Process
    url: str

    @property
    def rss_bytes(self) -> int:
        """What it has in memory."""
        return self.process.memory_info().rss

    @property
    def cpu_s(self) -> float:
        """Processor time that it has taken."""
        return cpu_s(self.process)

    def metric(self, name: str) -> float:
        """The value of one of its metrics that has no labels."""
        page = httpx.get(f"{self.url}/metrics", timeout=10).raise_for_status().text
        found = dict(line.split(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        return float(found[name])


@contextlib.contextmanager
def serving(folder: Path, port: int, more: str = "") -> Iterator[Collector]:
    """A collector on a broker's port, with an archive in the folder, subscribed when this returns.

    Args:
        folder: For its settings, ``collector.toml``, its archive and its log.
        port: The broker's, on this machine.
        more: Further tables of its settings.
    """
    http = free_port()
    config = folder / "collector.toml"
    config.write_text(_CONFIG.format(port=port, http=http) + more)
    url = f"http://127.0.0.1:{http}"
    with started([*MAIN, "serve", "--config", str(config)], folder, lambda: _subscribed(url)) as it:
        yield Collector(it, url)


@contextlib.contextmanager
def started(
    arguments: list[str], folder: Path, is_up: Callable[[], bool]
) -> Iterator[psutil.Process]:
    """A Python program that is up when this returns, and asked to end afterwards."""
    log = folder / "log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, *arguments], stdout=output, stderr=output, env=environment()
        )
    deadline = time.monotonic() + UP_WITHIN_S
    try:
        while not is_up():
            if child.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"did not start:\n{log.read_text()}")
            time.sleep(0.05)
        yield psutil.Process(child.pid)
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def environment() -> dict[str, str]:
    """Ours, with which a child finds our modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def cpu_s(process: psutil.Process) -> float:
    """Processor time that a process has taken."""
    times = process.cpu_times()
    return times.user + times.system


def _subscribed(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return bool(httpx.get(f"{url}/healthz").json()["parts"]["mqtt"] == "ok")
    return False
