"""Contenders that are more than one local server, and what they are charged for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgesweep_agent.errors import SettingsError
from edgesweep_agent.plan import SweepPlan
from edgesweep_agent.settings import load
from engine_server import engine_process
from random_gguf import Recipe, write

AGENT = Path(sys.executable).parent / "edgesweep-agent"
HEAD = """
order = "ascending"
requests = 8
workloads = [{ prompt_tokens = 16, output_tokens = 4 }]
"""
MANAGED = '[[contenders]]\nmode = "managed"\nmodel = "m.gguf"\ncontext_per_request = 64\n'


def run(tmp_path, text):
    plan, out = tmp_path / "plan.toml", tmp_path / "run.json"
    plan.write_text(text)
    command = [AGENT, "sweep", "--plan", plan, "--json", out, "--state", tmp_path / "state"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, json.loads(out.read_text())


def test_replicas_share_the_requests_of_one_contender(tmp_path):
    with engine_process("--ttft-ms", "5") as one, engine_process("--ttft-ms", "5") as other:
        contender = f'[[contenders]]\nmode = "attached"\nurl = "{one.url}"\n'
        contender += f'replicas = ["{other.url}"]\n'
        done, told = run(tmp_path, f"levels = [4]\n{HEAD}{contender}")
        counts = [len(engine.get("/timeline")) for engine in (one, other)]
    assert done.returncode == 0, done.stderr
    (contender,) = told["contenders"].values()
    assert contender["settings"]["replicas"] == "2"
    assert min(counts) >= 1 + 8
    assert abs(counts[0] - counts[1]) <= 2


def test_replicas_must_be_alike(tmp_path):
    with engine_process() as one, engine_process("--model", "another") as other:
        contender = f'[[contenders]]\nmode = "attached"\nurl = "{one.url}"\n'
        contender += f'replicas = ["{other.url}"]\n'
        done, _ = run(tmp_path, f"levels = [1]\n{HEAD}{contender}")
    assert done.returncode == 1
    assert "is not configured as" in done.stderr


def test_a_remote_contender_has_its_round_trip_and_its_price(tmp_path):
    with engine_process("--ttft-ms", "5") as engine:
        contender = f'[[contenders]]\nmode = "attached"\nurl = "{engine.url}"\nremote = true\n'
        contender += "price = { input_per_million = 0.5, output_per_million = 2.0 }\n"
        done, told = run(tmp_path, f"levels = [1]\n{HEAD}{contender}")
    assert done.returncode == 0, done.stderr
    (level,) = told["levels"]
    paid = (level["prompt_tokens"] * 0.5 + level["output_tokens"] * 2.0) / level["output_tokens"]
    assert level["cost_per_million_output_tokens"] == pytest.approx(paid)
    assert 0 < level["round_trip_s"] < 0.05
    (contender,) = told["contenders"].values()
    assert contender["settings"]["remote"] == "yes"


@pytest.mark.alone
def test_a_second_pass_measures_inside_the_bracket(tmp_path):
    """One is quick alone and takes one at a time, the other takes all at once."""
    with (
        engine_process("--ttft-ms", "20", "--tpot-ms", "1", "--slots", "1") as alone,
        engine_process("--ttft-ms", "60", "--tpot-ms", "3") as many,
    ):
        contenders = "".join(
            f'[[contenders]]\nmode = "attached"\nname = "{name}"\nurl = "{engine.url}"\n'
            for name, engine in (("alone", alone), ("many", many))
        )
        head = f"levels = [1, 9]\nsecond_pass = true\n{HEAD.replace('8', '12')}"
        done, told = run(tmp_path, head + contenders)
    assert done.returncode == 0, done.stderr
    if any(level["status"] == "flagged" for level in told["levels"]):
        pytest.skip("this machine is busy with something else, and flagged levels decide nothing")
    assert [level["concurrency"] for level in told["levels"]] == [1, 9, 1, 9, 3, 3]


@pytest.mark.parametrize(
    ("model", "says"),
    [("none.gguf", "No such file or directory"), ("plan.toml", "no GGUF file")],
)
def test_a_model_that_cannot_be_read_costs_its_contender_and_no_more(model, says, tmp_path):
    managed = MANAGED.replace("m.gguf", model) + 'slots = 2\nname = "managed"\n'
    with engine_process("--ttft-ms", "5") as engine:
        other = f'[[contenders]]\nmode = "attached"\nname = "other"\nurl = "{engine.url}"\n'
        done, told = run(tmp_path, f"levels = [1]\n{HEAD}{managed}{other}")
        assert "Traceback" not in done.stderr
        assert f"contender managed: {tmp_path / model}: " in done.stderr
        assert says in done.stderr
        statuses = [level["status"] for level in told["levels"]]
        assert statuses[0] == "failed"
        assert statuses[1] in {"valid", "flagged"}
        done, told = run(tmp_path, f"levels = [1]\n{HEAD}{managed}")
    assert done.returncode == 78
    assert done.stderr.count("\n") == 1
    assert told["levels"] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MANAGED, "slots is missing"),
        (MANAGED + "slots = 2\n", None),
        ('policy = "per_level"\n' + MANAGED, None),
        ('policy = "per_level"\n' + MANAGED + "slots = 2\n", "leave it out"),
        (
            'policy = "per_level"\n[[contenders]]\nmode = "attached"\nurl = "http://h"\n',
            "attached contenders have none",
        ),
        (MANAGED + 'slots = 2\nlauncher = "container"\n', "needs image"),
        (MANAGED + 'slots = 2\nimage = "x"\n', "needs image"),
        (MANAGED + "as_shipped = true\n", "leaves slots and context_per_request"),
        (
            '[[contenders]]\nmode = "managed"\nmodel = "m.gguf"\nas_shipped = true\n'
            + MANAGED + "slots = 2\nname = 'b'\n",
            "a plan of their own",
        ),
        (MANAGED + 'slots = 2\nspeculative = { method = "ngram-simple" }\n', "natural text"),
        (
            'workloads = ["chat-natural-512-128"]\n'
            + MANAGED + 'slots = 2\nspeculative = { method = "ngram-simple" }\n',
            None,
        ),
        ('workloads = ["nope"]\n' + MANAGED + "slots = 2\n", "no workload 'nope'"),
        ('workloads = ["ctx-1k", "ctx-1k"]\n' + MANAGED + "slots = 2\n", "must differ"),
        ('reserve = "much"\n' + MANAGED + "slots = 2\n", "is no size"),
    ],
)  # fmt: skip
def test_what_a_plan_may_and_may_not_combine(text, says, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    if says is None:
        assert load(path, SweepPlan)
        return
    with pytest.raises(SettingsError, match=r"plan\.toml") as caught:
        load(path, SweepPlan)
    assert says in str(caught.value)


def test_what_cannot_fit_at_all_is_said_with_the_arithmetic(packaged_model, tmp_path):
    text = f'reserve = "900GiB"\nlevels = [1, 2]\n{HEAD}'
    managed = MANAGED.replace("m.gguf", str(packaged_model)) + "slots = 2\n"
    done, told = run(tmp_path, text + managed)
    assert done.returncode == 0, done.stderr
    assert [(x["status"], x["reason"]) for x in told["levels"]] == [("skipped", "memory")] * 2
    assert "does not fit: " in done.stderr
    assert "reserve 921,600 MiB" in done.stderr


def test_a_kv_type_that_the_model_cannot_have_is_a_line(packaged_model, tmp_path):
    managed = MANAGED.replace("m.gguf", str(packaged_model)) + 'slots = 2\nkv_dtype = "q3"\n'
    done, _ = run(tmp_path, f"levels = [1]\n{HEAD}{managed}")
    assert (done.returncode, done.stderr.count("\n")) == (78, 1)
    assert "is no KV type of llama.cpp" in done.stderr


ENDS_FOR_WANT_OF_MEMORY = f"""#!{sys.executable}
import os, subprocess, sys, time
if "--help" in sys.argv or "--version" in sys.argv:
    sys.exit("version: 10573 (3f545becc)" if "--version" in sys.argv else 0)
port = sys.argv[sys.argv.index("--port") + 1]
server = {str(Path(__file__).parents[1] / "engine_server.py")!r}
engine = subprocess.Popen([sys.executable, server, "--port", port])
time.sleep(3)
print("CUDA error: out of memory", file=sys.stderr, flush=True)
engine.kill()
sys.exit(134)
"""


def test_an_engine_that_ends_for_want_of_memory_in_a_level_is_called_that(tmp_path):
    program = tmp_path / "llama-server"
    program.write_text(ENDS_FOR_WANT_OF_MEMORY)
    program.chmod(0o755)
    write(tmp_path / "m.gguf", Recipe())
    done, found = run(
        tmp_path,
        f"""
levels = [1]
requests = 5000
reserve = "1MiB"
[[workloads]]
prompt_tokens = 8
output_tokens = 4
[[contenders]]
mode = "managed"
name = "runs out"
model = "m.gguf"
server = "llama-server"
program = "{program}"
slots = 1
context_per_request = 64
""",
    )
    (level,) = found["levels"]
    assert done.returncode == 1, done.stderr
    assert (level["status"], level["reason"]) == ("failed", "oom")
    assert "memory" in level["attributes"]["engine_end"]
