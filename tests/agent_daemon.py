"""A daemon of the agent as a process, with a collector that is not there."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import anyio

from edgesweep import codec
from edgesweep.records import Event
from edgesweep_agent import control
from edgesweep_agent.errors import DaemonError

AGENT = Path(sys.executable).parent / "edgesweep-agent"
CONFIG = """
[device]
id = "daemon-1"
[spool]
path = "spool.db"
[control]
socket = "agent.sock"
[uplink]
kind = "grpc"
address = "127.0.0.1:9"
[log]
level = "error"
"""
KIND, PAYLOAD = codec.encode(Event("test", "a text"))


def until(condition, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def daemon(tmp_path, text=CONFIG):
    config = tmp_path / "agent.toml"
    config.write_text(text)
    command = [AGENT, "serve", "--config", config]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + 20
    while not answers(tmp_path):
        assert process.poll() is None, (tmp_path / "log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(20)


def put(tmp_path, kind=KIND.value, payload=PAYLOAD):
    return anyio.run(control.put, tmp_path / "agent.sock", kind, payload)


def report(tmp_path):
    return anyio.run(control.status, tmp_path / "agent.sock")


def answers(tmp_path) -> bool:
    try:
        return bool(report(tmp_path))
    except DaemonError:
        return False
