"""How a sweep goes: scout, order, sessions, resume, and what a plan shows beforehand."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crowded import door
from edgesweep.records import Workload
from edgesweep_agent.core.preview import preview
from edgesweep_agent.errors import SettingsError
from edgesweep_agent.plan import SweepPlan
from edgesweep_agent.presets import PRESETS, with_preset
from edgesweep_agent.settings import load
from engine_server import engine_process
from levels import status_of

AGENT = Path(sys.executable).parent / "edgesweep-agent"
QUICK = ("--ttft-ms", "5", "--tpot-ms", "1")
TWO = """
name = "two"
levels = [1, 2, 4]
requests = 4
sessions = {sessions}
seed = 5
workloads = [{{ prompt_tokens = 16, output_tokens = 4 }}]
[[contenders]]
mode = "attached"
name = "a"
url = "{a}"
[[contenders]]
mode = "attached"
name = "b"
url = "{b}"
"""


def sweep(*options, cwd=None):
    command = [AGENT, "sweep", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def levels_of(path):
    return json.loads(path.read_text())["levels"]


def test_sessions_alternate_and_levels_come_shuffled_after_a_scout(tmp_path):
    plan, run = tmp_path / "plan.toml", tmp_path / "run.json"
    with engine_process(*QUICK) as a, engine_process(*QUICK) as b:
        plan.write_text(TWO.format(sessions=2, a=a.url, b=b.url))
        done = sweep("--plan", plan, "--json", run, "--state", tmp_path)
        asked = len(a.get("/timeline"))
    assert done.returncode == 0, done.stderr
    told = json.loads(run.read_text())
    names = {key: contender["name"] for key, contender in told["contenders"].items()}
    visits = [(names[x["contender_id"]], x["session"]) for x in told["levels"]]
    assert list(dict.fromkeys(visits)) == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]
    orders = [
        [x["concurrency"] for x in told["levels"] if (names[x["contender_id"]], x["session"]) == v]
        for v in dict.fromkeys(visits)
    ]
    assert orders[0] == orders[1] != orders[2] == orders[3]
    assert all(sorted(order) == [1, 2, 4] for order in orders)
    # The trial of each visit, the scout's bursts, and per session at least two bursts of warm-up.
    assert asked >= 2 + 7 + 2 * (3 * 4 + 2 * 7)


def test_a_level_that_fails_in_the_scout_takes_the_higher_ones_with_it(tmp_path):
    plan, run = tmp_path / "plan.toml", tmp_path / "run.json"
    with (
        engine_process("--ttft-ms", "100", "--tpot-ms", "10") as engine,
        door(engine.url, 2) as url,
    ):
        text = TWO.format(sessions=1, a=url, b="").rsplit("[[contenders]]", 1)[0]
        plan.write_text(text.replace("[1, 2, 4]", "[1, 2, 4, 8]"))
        done = sweep("--plan", plan, "--json", run, "--state", tmp_path)
    told = {x["concurrency"]: (status_of(x), x["reason"]) for x in levels_of(run)}
    assert done.returncode == 1, done.stderr
    assert told == {
        1: ("valid", ""),
        2: ("valid", ""),
        4: ("failed", "errors"),
        8: ("skipped", "lower_level_failed"),
    }


@pytest.mark.parametrize(
    ("sign", "code", "left"),
    [
        (signal.SIGINT, 130, [(4, "failed"), (8, "skipped")]),
        (signal.SIGKILL, -9, []),
    ],
)
def test_cli_01_a_resumed_sweep_goes_on_with_the_next_level(sign, code, left, tmp_path):
    """CLI-01: finished levels stand, the interrupted one is measured again."""
    run, state = tmp_path / "run.json", tmp_path / "state"
    with engine_process("--ttft-ms", "50", "--tpot-ms", "10") as engine:
        options = ["--url", engine.url, "--levels", "1,2,4,8", "--requests", "8"]
        options += ["--output-tokens", "8", "--budget", "1h", "--json", run, "--state", state]
        process = subprocess.Popen([AGENT, "sweep", *map(str, options)])
        deadline = time.monotonic() + 40
        while not (run.exists() and len(levels_of(run)) == 2):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(sign)
        stopped = time.monotonic()
        assert process.wait(20) == code
        assert time.monotonic() - stopped < 5
        first = json.loads(run.read_text())
        found = [(x["concurrency"], status_of(x)) for x in first["levels"]]
        assert found == [(1, "valid"), (2, "valid"), *left]
        before = len(engine.get("/timeline"))
        done = sweep(*options, "--resume")
        asked = len(engine.get("/timeline")) - before
    assert done.returncode == 0, done.stderr
    again = json.loads(run.read_text())
    assert again["run_id"] == first["run_id"]
    assert [(x["concurrency"], status_of(x), x["attempt"]) for x in again["levels"]] == [
        (1, "valid", 1), (2, "valid", 1), (4, "valid", 2), (8, "valid", 2),
    ]  # fmt: skip
    assert asked < 1 + 2 * 8 + 6 * (4 + 8) + 1
    assert not list(tmp_path.glob("**/*.tmp"))


def test_there_is_nothing_to_resume_of_a_run_that_ended_or_of_another_plan(tmp_path):
    run, state = tmp_path / "run.json", tmp_path / "state"
    with engine_process(*QUICK) as engine:
        options = ["--url", engine.url, "--levels", "1", "--requests", "2", "--state", state]
        ids = []
        for _ in range(2):
            assert sweep(*options, "--json", run, "--resume").returncode == 0
            ids.append(json.loads(run.read_text())["run_id"])
    assert ids[0] != ids[1]
    assert len(list(state.glob("*.jsonl"))) == 2


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_plan(name, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(f'preset = "{name}"\n[[contenders]]\nmode = "attached"\nurl = "http://h"\n')
    plan = load(path, SweepPlan, with_preset)
    assert plan.name == name
    done = sweep("--plan", path, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert all(shape.workload().name in done.stdout for shape in plan.shapes())


def test_a_plan_overrules_its_preset_and_an_unknown_one_is_named(tmp_path):
    path = tmp_path / "plan.toml"
    attached = '[[contenders]]\nmode = "attached"\nurl = "http://h"\n'
    path.write_text(f'preset = "headline"\nsessions = 1\n{attached}')
    plan = load(path, SweepPlan, with_preset)
    assert (plan.sessions, plan.precision) == (1, 0.02)
    path.write_text(f'preset = "best"\n{attached}')
    with pytest.raises(SettingsError, match=r"plan.toml: preset: there is no 'best'; there is"):
        load(path, SweepPlan, with_preset)


def test_a_preview_counts_levels_starts_and_time():
    workload = Workload("chat", 160, 20)
    seen = preview(
        [workload], {("chat", 1): (11, 11), ("chat", 2): (11, 110)},
        contenders=2, sessions=3, engine_starts=6, scouts=False,
    )  # fmt: skip
    # A request alone: 20 tokens at 20/s and 160 prompt tokens at 160/s are two seconds.
    assert seen.levels[0].seconds == pytest.approx((11 + 3) * 2.0)
    assert seen.levels[1].seconds == pytest.approx((11 + 6) * 1.5)
    assert seen.seconds == pytest.approx(6 * 60 + 6 * (28 + 25.5))
    assert seen.most_seconds > seen.seconds


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--arrival", "poisson"), "needs rate_per_user_per_s"),
        (("--arrival", "burst"), "closed or poisson"),
        (("--preset", "best"), "no preset 'best'"),
        (("--workload", "chat-64-32", "--prompts", "x"), "one of them"),
        (("--workload", "fanout-2048+256-128", "--arrival", "poisson", "--rate", "1"), "not alone"),
        (("--precision", "2"), "precision"),
    ],
)
def test_what_cannot_be_measured_is_refused(options, says):
    done = sweep("--url", "http://127.0.0.1:9", "--dry-run", *options)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.alone
def test_an_open_loop_keeps_its_pace_and_counts_from_when_a_request_was_due(tmp_path):
    run = tmp_path / "run.json"
    with engine_process("--ttft-ms", "20", "--tpot-ms", "2") as engine:
        done = sweep(
            "--url", engine.url, "--levels", "4", "--requests", "100", "--output-tokens", "4",
            "--arrival", "poisson", "--rate", "10", "--json", run, "--state", tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (level,) = levels_of(run)
    assert level["workload"].endswith("@poisson-10")
    assert level["offered_per_s"] == pytest.approx(40, rel=0.5)
    assert level["n_ok"] == 100


def test_precision_ends_a_level_early_and_not_before_its_floor(tmp_path):
    run = tmp_path / "run.json"
    with engine_process("--ttft-ms", "10", "--tpot-ms", "1") as engine:
        done = sweep(
            "--url", engine.url, "--levels", "2", "--requests", "30", "--output-tokens", "8",
            "--precision", "0.2", "--json", run, "--state", tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (level,) = levels_of(run)
    assert 30 <= level["n_ok"] < 300
    assert status_of(level) == "valid"
