"""The daemon as a process: what it takes over its socket, and what it refuses."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from agent_daemon import AGENT, CONFIG, PAYLOAD, daemon, put, report, until
from edgesweep import codec
from edgesweep.records import Event
from edgesweep_agent.errors import DaemonError
from engine_server import engine_process


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
        ("telemetry", b"\xff\xff", "not a telemetry"),
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


def test_a_socket_that_somebody_answers_on_is_not_taken_away(tmp_path):
    (tmp_path / "b").mkdir()
    other = tmp_path / "b/agent.toml"
    other.write_text(CONFIG.replace('"agent.sock"', '"../agent.sock"'))
    with daemon(tmp_path):
        command = [AGENT, "serve", "--config", other]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, "another daemon answers" in done.stderr) == (78, True)
        assert report(tmp_path).device_id == "daemon-1"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ('socket = "agent.sock"', f'socket = "{"x" * 120}"', "control.socket"),
        ('path = "spool.db"', 'path = "/proc/x/spool.db"', "spool.path /proc/x: "),
        ("[log]", '[plans.p]\nfile = "none.toml"\n[log]', "none.toml: No such file"),
    ],
)
def test_what_cannot_be_is_one_line_and_78(tmp_path, key, value, says):
    config = tmp_path / "agent.toml"
    config.write_text(CONFIG.replace(key, value))
    command = [AGENT, "serve", "--config", config]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 78, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def sweeps_of(root: Path) -> list[int]:
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(root) in line and "edgesweep_agent.cli" in line:
            found.append(process.pid)
    return found


def test_a_sweep_ends_with_the_daemon_that_started_it(tmp_path):
    """Or a restarted daemon would start the plan again beside it."""
    with engine_process("--ttft-ms", "300", "--tpot-ms", "50") as engine:
        (tmp_path / "plan.toml").write_text(
            f'requests = 200\n[[contenders]]\nmode = "attached"\nurl = "{engine.url}"\n'
        )
        once = '[plans.p]\nfile = "plan.toml"\nrun = "once"\n[log]'
        with daemon(tmp_path, CONFIG.replace("[log]", once)) as process:
            until(lambda: sweeps_of(tmp_path))
            until(lambda: report(tmp_path).rows_by_kind.get("run"))
            assert len(sweeps_of(tmp_path)) == 1
            process.kill()
        until(lambda: not sweeps_of(tmp_path))


def test_two_sweeps_of_one_device_take_turns(tmp_path):
    with daemon(tmp_path), engine_process("--ttft-ms", "100", "--tpot-ms", "20") as engine:
        command = [AGENT, "sweep", "--url", engine.url, "--levels", "1", "--config"]
        command += [tmp_path / "agent.toml", "--submit"]
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until(lambda: report(tmp_path).rows_by_kind.get("run"))
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert "another sweep is running on this device" in second.stderr
        assert first.wait(30) == 0


def test_a_sweep_does_not_begin_without_the_daemon_it_is_for(tmp_path):
    config = tmp_path / "agent.toml"
    config.write_text(CONFIG)
    with engine_process() as engine:
        command = [AGENT, "sweep", "--url", engine.url, "--submit", "--config", config]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no daemon answers" in done.stderr


@pytest.mark.alone
def test_an_idle_daemon_uses_no_processor(tmp_path):
    with daemon(tmp_path) as process:
        time.sleep(1.0)
        before = cpu_s(process.pid)
        time.sleep(3.0)
        assert cpu_s(process.pid) - before < 0.3


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
