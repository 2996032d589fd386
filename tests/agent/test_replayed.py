"""What a replay states of its own prompts, before and after they are sent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgesweep_agent.cli.choose import Wanted, chosen
from edgesweep_agent.errors import SettingsError
from engine_server import engine_process

AGENT = Path(sys.executable).parent / "edgesweep-agent"


def replayed(tmp_path, *entries):
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(json.dumps(entry) for entry in entries))
    plan = chosen(
        Wanted(prompts=path),
        url="http://h", plan=None, model=None, api_key_file=None, settings=None,
    )  # fmt: skip
    (shape,) = plan.shapes()
    return shape.workload().prompt_tokens, shape.workload().output_tokens


def test_a_replay_states_the_lengths_of_its_file(tmp_path):
    long, short = {"prompt": "x" * 4000}, {"prompt": "x" * 400}
    # The quick shape's 32 output tokens are what is asked for where the file does not say.
    assert replayed(tmp_path, long, short) == (550, 32)
    assert replayed(tmp_path, long | {"output_tokens": 10}, short) == (550, 32)
    told = [long | {"output_tokens": 10}, short | {"output_tokens": 20}]
    assert replayed(tmp_path, *told) == (550, 15)


def test_a_replay_without_its_file_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.jsonl"):
        chosen(
            Wanted(prompts=tmp_path / "none.jsonl"),
            url="http://h", plan=None, model=None, api_key_file=None, settings=None,
        )  # fmt: skip


def test_a_replayed_level_says_what_was_sent_and_answered(tmp_path):
    run, prompts = tmp_path / "run.json", tmp_path / "mine.jsonl"
    prompts.write_text(json.dumps({"prompt": "word " * 40, "output_tokens": 6}))
    with engine_process("--ttft-ms", "2", "--tpot-ms", "1") as engine:
        command = [AGENT, "sweep", "--url", engine.url, "--prompts", prompts, "--levels", "1"]
        subprocess.run([*command, "--requests", "2", "--json", run], check=True)
    told = json.loads(run.read_text())
    assert told["workloads"] == {"replay-mine": {"prompt_tokens": 50, "output_tokens": 6}}
    assert told["plan"]["workloads"][0]["prompt_tokens"] == 50
    (level,) = told["levels"]
    mean = level["prompt_tokens"] / level["n_ok"]
    assert level["attributes"]["replayed"] == f"mean {mean:.0f} prompt tokens and 6 output tokens"
