"""The cases of ``fixtures/cases/cli.json``; and no case of any file goes without its test.

| case | test |
|---|---|
| CLI-01 | here, with SIGTERM; SIGINT and SIGKILL in ``test_sweep_order.py`` |
| CLI-02 | ``test_guard.py``: ``test_cli_02_memory_runs_out_in_mid_sweep`` |
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine_fixtures import cases
from engine_server import engine_process
from levels import status_of

AGENT = Path(sys.executable).parent / "edgesweep-agent"
TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["sse", "metrics_scrape", "engine_detect", "telemetry", "cli"])
def test_every_case_is_named_by_a_test(name):
    code = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    named = set(re.findall(r"def test_(?:case_)?([a-z]+_\d\d)_", code))
    assert {case.lower().replace("-", "_") for case in cases(name)} <= named


def test_cli_01_a_sweep_that_is_told_to_stop_keeps_its_levels_and_goes_on(tmp_path):
    case = cases("cli")["CLI-01"]
    levels, expected = case["input"]["sweep"], case["expected"]
    run = tmp_path / "run.json"

    def found():
        return {x["concurrency"]: x for x in json.loads(run.read_text())["levels"]}

    with engine_process("--ttft-ms", "40", "--tpot-ms", "5") as engine:
        options = ["--url", engine.url, "--levels", ",".join(map(str, levels)), "--requests", "4"]
        options += ["--output-tokens", "6", "--budget", "1h"]
        command = [AGENT, "sweep", *options, "--json", run, "--state", tmp_path / "state"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 40
        while not (run.exists() and len(found()) == len(expected["levels_complete"])):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        stopped = time.monotonic()
        assert process.wait(20) == 128 + signal.SIGTERM
        assert time.monotonic() - stopped < expected["exit_within_s"]
        left = found()
        done = [level for level, told in left.items() if status_of(told) == "valid"]
        assert done == expected["levels_complete"]
        assert (left[4]["status"], left[4]["reason"]) == ("failed", "interrupted")
        assert subprocess.run([*command, "--resume"], check=False).returncode == 0
    again = [level for level, told in found().items() if told["attempt"] == 2]
    assert again == expected["after_resume_levels_run"]
    assert len(list(tmp_path.rglob("*.tmp"))) == expected["tmp_or_half_files"]
