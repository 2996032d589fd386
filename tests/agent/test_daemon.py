"""The daemon as a process: what it takes over its socket, and what it refuses."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

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


@contextmanager
def daemon(tmp_path):
    config = tmp_path / "agent.toml"
    config.write_text(CONFIG)
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


def test_what_is_handed_over_is_in_the_spool_and_stays_there(tmp_path):
    with daemon(tmp_path) as process:
        stored = put(tmp_path)
        assert stored.seq == 2  # the birth was first
        process.kill()
    with daemon(tmp_path):
        told = report(tmp_path)
        assert (told.epoch, told.rows_by_kind) == (stored.epoch, {"birth": 2, "event": 1})
        assert told.uplink_state in {"down", "connecting"}
        assert oct((tmp_path / "agent.sock").stat().st_mode)[-3:] == "600"
    assert not (tmp_path / "agent.sock").exists()


@pytest.mark.parametrize(
    ("kind", "payload", "says"),
    [
        ("gossip", PAYLOAD, "gossip"),
        ("telemetry", b"", "no decoder"),
        ("level", b"\xff\xff", "not a level"),
        ("event", codec.encode(Event("x", "y" * 300_000))[1], "300007 bytes: over 262144"),
    ],
)
def test_what_is_no_record_is_refused_by_name(tmp_path, kind, payload, says):
    with daemon(tmp_path):
        with pytest.raises(DaemonError, match=says):
            put(tmp_path, kind, payload)
        assert report(tmp_path).made == 1


def test_garbage_on_the_socket_harms_nobody(tmp_path):
    with daemon(tmp_path):
        for garbage in (b"\n", b"{}\n", b"\xff\xfe\n", b'{"op":"put"}\n', b"x" * 2**21, b"half"):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(str(tmp_path / "agent.sock"))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    raw.sendall(garbage)
                    raw.shutdown(socket.SHUT_WR)
                    raw.recv(1000)
        assert put(tmp_path).seq == 2


def test_status_without_a_daemon_says_what_to_start(tmp_path):
    config = tmp_path / "agent.toml"
    config.write_text(CONFIG)
    command = [AGENT, "spool", "status", "--config", config]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "start `edgesweep-agent serve`" in done.stderr


def test_status_for_machines(tmp_path):
    with daemon(tmp_path):
        command = [AGENT, "spool", "status", "--config", tmp_path / "agent.toml", "--json"]
        told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert told["device_id"] == "daemon-1"
    assert told["rows"] == 1


def test_a_second_daemon_on_the_same_spool_is_refused(tmp_path):
    with daemon(tmp_path):
        command = [AGENT, "serve", "--config", tmp_path / "agent.toml"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "another agent has this spool open" in done.stderr


def test_an_idle_daemon_uses_no_processor(tmp_path):
    with daemon(tmp_path) as process:
        time.sleep(1.0)
        before = cpu_s(process.pid)
        time.sleep(3.0)
        assert cpu_s(process.pid) - before < 0.3


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
