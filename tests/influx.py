"""A real influxd 1.x for tests, in a folder of its own and on free loopback ports."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MISSING = "influxd is not installed: apt-get install influxdb"
_CONFIG = """\
reporting-enabled = false
bind-address = "127.0.0.1:{rpc}"
[meta]
dir = "{root}/meta"
[data]
dir = "{root}/data"
wal-dir = "{root}/wal"
query-log-enabled = false
{data}
[monitor]
store-enabled = false
[http]
bind-address = "127.0.0.1:{http}"
log-enabled = false
[continuous_queries]
{continuous}
"""
_NO_CONTINUOUS = "enabled = false"
CONTINUOUS = 'enabled = true\nrun-interval = "500ms"'
"""Runs continuous queries, twice a second."""
COLD_AT_ONCE = (
    'cache-snapshot-write-cold-duration = "500ms"\ncompact-full-write-cold-duration = "500ms"'
)
"""Brings what was written into its final form as soon as nothing comes: for sizes on disk."""


class Influx:
    """One influxd process: start, stop, start again on the same data, and ask it.

    Args:
        root: The folder for all it writes.
        program: influxd.
        data: Further lines of ``[data]``.
        continuous: The lines of ``[continuous_queries]``.
    """

    def __init__(
        self, root: Path, program: str, data: str = "", continuous: str = _NO_CONTINUOUS
    ) -> None:
        self.root = root
        self._program = program
        self._more = {"data": data, "continuous": continuous}
        self._port, self._rpc = _free_ports()
        self._process: subprocess.Popen[bytes] | None = None
        self.database = "fleet"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        config = self.root / "influxdb.conf"
        config.write_text(
            _CONFIG.format(root=self.root, http=self._port, rpc=self._rpc, **self._more)
        )
        command = [self._program, "run", "-config", str(config)]
        with (self.root / "influxd.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait()
        self.query(f'CREATE DATABASE "{self.database}"', method="POST")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def query(self, text: str, method: str = "GET") -> list[dict]:
        """The series that an InfluxQL statement answers, times in ns."""
        params = {"db": self.database, "q": text, "epoch": "ns"}
        answer = httpx.request(method, f"{self.url}/query", params=params, timeout=20)
        answer.raise_for_status()
        (result,) = answer.json()["results"]
        assert "error" not in result, result
        return result.get("series", [])

    def rows(self, text: str) -> list[dict]:
        """The rows of all series, each with its tags and columns in one dict."""
        return [
            series.get("tags", {}) | dict(zip(series["columns"], values, strict=True))
            for series in self.query(text)
            for values in series["values"]
        ]

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/ping").status_code == 204:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        self.stop()
        pytest.fail(f"influxd did not start:\n{(self.root / 'influxd.log').read_text()}")


@contextmanager
def running_influx(root: Path, **options: str) -> Iterator[Influx]:
    """A started :class:`Influx` with its database; the test is skipped where there is none."""
    # Debian's package starts a service of that name; only the program is of interest here.
    program = shutil.which("influxd")
    if program is None:
        pytest.skip(MISSING)
    server = Influx(root, program, **options)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _free_ports() -> tuple[int, int]:
    here = ("127.0.0.1", 0)
    with socket.create_server(here) as one, socket.create_server(here) as other:
        return one.getsockname()[1], other.getsockname()[1]
