"""That soak and scale test work, on few devices, for seconds; their figures are not the point."""

from __future__ import annotations

import os
import random
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from mosquitto import needs_mosquitto

SOAK = Path(__file__).parents[1] / "soak"
ENV = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
slope = runpy.run_path(str(SOAK / "slope.py"))["slope"]


def walk(rise_per_s, n=300, seed=1):
    """Memory as it is: steps that stay, and a rise."""
    dice, level, points = random.Random(seed), 0.0, []
    for at_s in range(n):
        level = 0.9 * level + dice.gauss(0.0, 1.0)
        points.append((float(at_s), 1000.0 + level + rise_per_s * at_s))
    return points


def test_what_rises_has_a_slope_and_what_wanders_has_none():
    steady = [slope(walk(0.0, seed=seed)) for seed in range(40)]
    assert sum(found.low <= 0 <= found.high for found in steady) >= 34
    found = slope(walk(0.05))
    assert 0 < found.low < 0.05 < found.high < 0.1
    with pytest.raises(ValueError, match="too few"):
        slope(walk(0.0, n=10))


@pytest.mark.sample
@needs_mosquitto
def test_more_and_more_devices_make_a_table():
    done = subprocess.run(
        [sys.executable, SOAK / "scale.py", "--devices", "2", "5", "--seconds", "5",
         "--telemetry", "1s", "--heartbeat", "1s"],
        env=ENV, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    heads, _, first, second, *_, knee = done.stdout.splitlines()
    assert heads.startswith("| devices | records/s |")
    assert [row.split("|")[1].strip() for row in (first, second)] == ["2", "5"]
    assert "knee" in knee
