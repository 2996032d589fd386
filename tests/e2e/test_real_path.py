"""The whole path with real parts: llama.cpp, mosquitto, InfluxDB, both daemons as processes.

What is counted at the end is what was made at the start, on every leg of the way, although the
collector was away in the middle of the sweep.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from edgesweep_agent import control
from influx import running_influx
from influx_rewrite import rewriting
from mosquitto import Mosquitto, free_port, needs_mosquitto

BIN = Path(sys.executable).parent
LEVELS = [1, 2]
# One thread each: two that meet at a barrier would crawl as soon as another process wants a core.
PLAN = """
name = "real-path"
levels = {levels}
order = "ascending"
requests = 3
[[workloads]]
prompt_tokens = 24
output_tokens = 6
[[contenders]]
mode = "managed"
name = "Q4_1"
model = "{model}"
slots = 2
context_per_request = 256
threads = 1
[[contenders]]
mode = "managed"
name = "Q4_1 longer"
model = "{model}"
slots = 2
context_per_request = 512
threads = 1
"""
AGENT = """
heartbeat_s = 3600
telemetry_s = 0
[device]
id = "e2e-1"
labels = {{ site = "lab" }}
[spool]
path = "spool.db"
[control]
socket = "agent.sock"
[uplink]
{uplink}
[plans.only]
file = "plan.toml"
run = "once"
"""
COLLECTOR = """
[archive]
url = "sqlite:///{root}/archive.db"
[influx]
url = "{influx}"
bucket = "{bucket}"
[http]
listen = "127.0.0.1:{http}"
{transport}
"""


class Daemon:
    """One of our daemons as a process, with its log."""

    def __init__(self, root: Path, program: str) -> None:
        self.command = [BIN / program, "serve", "--config", root / f"{program}.toml"]
        self.log = root / f"{program}.log"
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def end(self, sign: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(sign)
        return self.process.wait(30)


@contextmanager
def transport(kind: str, root: Path):
    """The [uplink] of an agent and the transport's table of a collector that belong together."""
    port = free_port()
    if kind == "grpc":
        table = f'[grpc]\nlisten = "127.0.0.1:{port}"'
        yield f'kind = "grpc"\naddress = "127.0.0.1:{port}"', table
        return
    broker = Mosquitto(root)
    broker.start()
    try:
        where = f'host = "127.0.0.1"\nport = {broker.port}'
        yield f'kind = "mqtt"\n{where}', f"[mqtt]\n{where}"
    finally:
        broker.kill()


def until(condition, log: Path, within_s: float = 90.0):
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)
    return found


def archived(root: Path) -> dict[str, int]:
    """Envelopes by kind; nothing while the collector has yet to make its tables."""
    path = root / "archive.db"
    if not path.exists():
        return {}
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return dict(db.execute("SELECT kind, COUNT(*) FROM envelopes GROUP BY kind"))
    except sqlite3.OperationalError:
        return {}
    finally:
        db.close()


def spool(root: Path) -> control.Report:
    async def ask() -> control.Report:
        return await control.status(root / "agent.sock")

    return anyio.run(ask)


@needs_mosquitto
@pytest.mark.parametrize("kind", ["mqtt", "grpc"])
def test_nothing_is_lost_and_nothing_is_twice(kind, tmp_path, packaged_model):
    (tmp_path / "influx").mkdir()
    with (
        running_influx(tmp_path / "influx") as influx,
        rewriting(influx.url) as front,
        transport(kind, tmp_path) as (uplink, table),
    ):
        http = free_port()
        plan = PLAN.format(levels=LEVELS, model=packaged_model)
        (tmp_path / "plan.toml").write_text(plan)
        (tmp_path / "edgesweep-agent.toml").write_text(AGENT.format(uplink=uplink))
        (tmp_path / "edgesweep-collector.toml").write_text(
            COLLECTOR.format(
                root=tmp_path, influx=front.url, bucket=influx.database, http=http, transport=table
            )
        )
        collector = Daemon(tmp_path, "edgesweep-collector")
        agent = Daemon(tmp_path, "edgesweep-agent")
        collector.start()
        agent.start()
        try:
            until(lambda: archived(tmp_path).get("level", 0) >= 1, agent.log)
            collector.end(signal.SIGKILL)
            held = until(lambda: spool(tmp_path).rows_by_kind.get("level"), agent.log)
            assert held >= 1
            collector.start()
            until(lambda: archived(tmp_path).get("event", 0) == 2, agent.log)
            until(lambda: spool(tmp_path).rows == 0, agent.log)
            made = spool(tmp_path).made
            n_levels = 2 * len(LEVELS)
            until(lambda: len(influx.rows("SELECT * FROM edgesweep_level")) >= n_levels, agent.log)
            points = influx.rows("SELECT concurrency, contender_id FROM edgesweep_level")
        finally:
            assert agent.end() == 0, agent.log.read_text()
            assert collector.end() == 0, collector.log.read_text()

    assert archived(tmp_path) == {"birth": 1, "event": 2, "level": n_levels, "run": 2}
    assert made == n_levels + 5
    assert sorted(point["concurrency"] for point in points) == sorted(LEVELS * 2)
    assert len({point["contender_id"] for point in points}) == 2
