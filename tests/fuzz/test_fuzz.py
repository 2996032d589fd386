"""A small budget of ``make fuzz``: the same inputs each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
BUDGET = {
    "ingest": 2000,
    "lines": 3000,
    "agent-settings": 200,
    "collector-settings": 400,
    "plans": 300,
    "sse": 1000,
    "carried": 1500,
    "events": 5000,
}


@pytest.mark.sample
@pytest.mark.parametrize("target", BUDGET)
def test_nothing_crashes_hangs_or_grows(target, tmp_path):
    options = ["--target", target, "--inputs", str(BUDGET[target]), "--seed", "1"]
    done = subprocess.run(
        [sys.executable, str(RUN), *options],
        cwd=tmp_path,
        env=ENV,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{target}: {BUDGET[target]} inputs" in done.stdout
