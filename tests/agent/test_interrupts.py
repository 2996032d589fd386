"""Ctrl-C: one line, 130, and what was kept, from the first moment of a command on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine_server import engine_process

BIN = Path(sys.executable).parent
# Sends itself the signal when that module begins to be imported: no clock is guessed at.
INTERRUPTED = """
import os, signal, sys
from edgesweep_{side}.cli import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
sys.argv = ["program", *{words!r}]
main()
"""


def until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("side", "words", "module", "says"),
    [
        ("agent", ["sweep", "--url", "http://h"], "typer", "before anything was measured"),
        ("agent", ["sweep", "--url", "http://h"], "httpx", "before anything was measured"),
        ("agent", ["fit", "x.gguf"], "typer", "the same command can be given again"),
        ("collector", ["crossover", "x"], "typer", "the same command can be given again"),
        ("collector", ["ingest", "x", "--config", "y"], "sqlalchemy", "the archive has taken"),
    ],
)
def test_an_interrupt_among_the_imports_is_one_line(side, words, module, says):
    program = INTERRUPTED.format(side=side, module=module, words=words)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"edgesweep-{side}: interrupted")
    assert says in done.stderr


def running(url, *options):
    command = [BIN / "edgesweep-agent", "sweep", "--url", url, "--levels", "1,2", *options]
    return subprocess.Popen(
        [*command, "--requests", "11", "--budget", "1h"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_second_interrupt_says_what_is_kept_too(tmp_path):
    run = tmp_path / "run.json"
    with engine_process("--ttft-ms", "50", "--tpot-ms", "30") as engine:
        process = running(engine.url, "--json", str(run), "--state", str(tmp_path / "state"))
        until(lambda: run.exists() and json.loads(run.read_text())["levels"])
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    told = [line for line in err.splitlines() if "interrupted" in line]
    assert len(told) == 1
    assert f"1 measured level kept in {run}; the same command with --resume goes on" in told[0]
    assert json.loads(run.read_text())["levels"][0]["concurrency"] == 1


def test_results_on_standard_output_leave_it_to_them(tmp_path):
    with engine_process("--ttft-ms", "5", "--tpot-ms", "1") as engine:
        command = [BIN / "edgesweep-agent", "sweep", "--url", engine.url, "--levels", "1,2"]
        command += ["--requests", "11", "--output-tokens", "4", "--state", str(tmp_path)]
        done = subprocess.run(
            [*command, "--json", "-"], capture_output=True, text=True, timeout=60, check=False
        )
        rows = subprocess.run(
            [*command, "--samples", "-"], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == rows.returncode == 0, done.stderr + rows.stderr
    assert [x["concurrency"] for x in json.loads(done.stdout)["levels"]] == [1, 2]
    assert "tok/s" in done.stderr
    assert len([json.loads(line) for line in rows.stdout.splitlines()]) == 22
    assert "tok/s" in rows.stderr
    assert not Path("-").exists()
