"""The command a user types, as a process, against servers that behave in every way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine_server import engine_process
from levels import flags_of, status_of

AGENT = Path(sys.executable).parent / "edgesweep-agent"


def sweep(*options: str, timeout: float = 60) -> subprocess.CompletedProcess:
    command = [AGENT, "sweep", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.alone
def test_a_sweep_prints_a_table_and_writes_run_and_samples(tmp_path):
    run, samples = tmp_path / "out/run.json", tmp_path / "out/samples.jsonl"
    with engine_process("--ttft-ms", "30", "--tpot-ms", "4") as engine:
        done = sweep(
            "--url", engine.url, "--levels", "1,2", "--requests", "12", "--output-tokens", "8",
            "--json", str(run), "--samples", str(samples), "--keep-text",
        )  # fmt: skip
        timeline = engine.get("/timeline")
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == ["1", "2"]

    told = json.loads(run.read_text())
    assert told["schema"] == "edgesweep.run/1"
    (contender_id,) = told["contenders"]
    assert [(x["concurrency"], status_of(x), x["n_ok"]) for x in told["levels"]] == [
        (1, "valid", 12),
        (2, "valid", 12),
    ]
    for level in told["levels"]:
        assert level["contender_id"] == contender_id
        assert level["ttft_s"]["p50"] == pytest.approx(0.030, abs=0.015)
        assert level["ttft_s"]["p90"] is None
        assert level["tpot_s"]["p50"] == pytest.approx(0.004, abs=0.002)
        assert level["output_tokens_per_s"] > 0

    rows = lines_of(samples)
    assert len(rows) == 24
    assert {row["token_source"] for row in rows} == {"usage"}
    # Seeded within a quarter of the mean, which is met.
    lengths = [row["output_tokens"] for row in rows]
    assert (sum(lengths), min(lengths) < 8 < max(lengths)) == (8 * 24, True)
    assert all(row["text"] and row["ttfr_s"] < row["ttft_s"] for row in rows)
    # One question to see that it answers, and two to six bursts of warm-up, come on top.
    assert 24 + 1 + 2 * (1 + 2) <= len(timeline) <= 24 + 1 + 6 * (1 + 2)


def test_every_prompt_differs_from_its_first_word_on(tmp_path):
    run = tmp_path / "run.json"
    with engine_process("--ttft-ms", "1", "--tpot-ms", "0") as engine:
        sweep("--url", engine.url, "--levels", "1,4", "--requests", "20", "--json", str(run))
    told = json.loads(run.read_text())
    assert told["levels"][1]["n_ok"] == 20
    assert told["levels"][1]["cached_tokens"] is None


@pytest.mark.alone
def test_levels_beyond_the_budget_are_skipped_with_the_reason(tmp_path):
    run = tmp_path / "run.json"
    began = time.monotonic()
    with engine_process("--ttft-ms", "100", "--tpot-ms", "10") as engine:
        done = sweep(
            "--url", engine.url, "--requests", "11", "--output-tokens", "16",
            "--levels", "1,2,4,8", "--budget", "5s", "--json", str(run),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 12
    levels = json.loads(run.read_text())["levels"]
    assert status_of(levels[0]) == "valid"
    assert {(x["status"], x["reason"]) for x in levels[2:]} == {("skipped", "time_budget")}


def test_a_level_cut_by_the_budget_keeps_what_it_measured(tmp_path):
    samples = tmp_path / "samples.jsonl"
    with engine_process("--ttft-ms", "200", "--tpot-ms", "20") as engine:
        done = sweep(
            "--url", engine.url, "--requests", "50", "--levels", "1",
            "--budget", "4s", "--samples", str(samples),
        )  # fmt: skip
    assert "skipped: time_budget" in done.stdout
    assert 1 <= len(lines_of(samples)) < 50
    # Nothing failed: the table and the last line say what the budget was too short for.
    assert done.returncode == 0, done.stderr
    assert "not measured within the budget: level 1" in done.stderr


def test_the_wrong_model_is_a_usage_error_that_names_the_right_one():
    with engine_process() as engine:
        done = sweep("--url", engine.url, "--model", "nope")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no model 'nope'; it has scripted" in done.stderr


def test_a_dead_port_says_so_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    done = sweep("--url", f"http://127.0.0.1:{port}")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "nothing listens there" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_never_finishes_loading_is_given_up():
    with engine_process("--loading-s", "100") as engine:
        done = sweep("--url", engine.url, "--wait", "1")
    assert done.returncode == 1
    assert "still loading its model (HTTP 503) after 1 s" in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "nothing to measure"),
        (("--url", "http://h", "--plan", "x.toml"), "not both"),
        (("--url", "http://h", "--levels", "1,x"), "whole numbers"),
        (("--url", "http://h", "--levels", "4,2"), "must ascend"),
        (("--url", "http://h", "--budget", "soon"), "is no duration"),
        (("--url", "http://h", "--workload", "nope"), "no workload 'nope'"),
        (("--url", "http://h", "--submit"), "--submit needs --config"),
        (("--url", "ftp://h"), "no http:// or https:// address"),
        (("--url", "http://[::1"), "no http:// or https:// address"),
        (("--url", "http://127.0.0.1:99999"), "no http:// or https:// address"),
        (("--url", "http://user:pw@h"), "put a secret into a file"),
        (("--url", "http://h/?key=s"), "put a secret into a file"),
        (("--url", "http://h", "--json", "/tmp"), "is a folder"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(options, says):
    done = sweep(*options)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_with_an_unknown_key_names_file_and_key(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('levls = [1]\n[[contenders]]\nmode = "attached"\nurl = "http://h"\n')
    done = sweep("--plan", str(plan))
    assert done.returncode == 78
    assert f"{plan}: levls: unknown key" in done.stderr


TWINS = """
levels = [1]
requests = 3
[[contenders]]
mode = "attached"
name = "fast"
url = "{fast}"
[[contenders]]
mode = "attached"
name = "slow"
url = "{slow}"
"""


def test_two_servers_that_say_the_same_of_themselves_are_two_contenders(tmp_path):
    run, plan = tmp_path / "run.json", tmp_path / "plan.toml"
    with engine_process() as fast, engine_process("--ttft-ms", "90") as slow:
        plan.write_text(TWINS.format(fast=fast.url, slow=slow.url))
        done = sweep("--plan", str(plan), "--json", str(run))
        assert done.returncode == 0, done.stderr
        told = json.loads(run.read_text())
        assert len({level["contender_id"] for level in told["levels"]}) == 2
        plan.write_text(TWINS.format(fast=fast.url, slow=fast.url))
        again = sweep("--plan", str(plan), "--json", str(run))
    assert again.returncode == 78
    assert "fast and slow are the same configuration" in again.stderr


def test_contenders_that_never_answer_are_told_apart_too(tmp_path):
    run, plan = tmp_path / "run.json", tmp_path / "plan.toml"
    plan.write_text(TWINS.format(fast="http://127.0.0.1:9", slow="http://127.0.0.1:10"))
    assert sweep("--plan", str(plan), "--json", str(run)).returncode == 1
    told = json.loads(run.read_text())["levels"]
    assert [level["reason"] for level in told] == ["not_ready", "not_ready"]
    assert len({level["contender_id"] for level in told}) == 2


@pytest.mark.parametrize(
    ("options", "flag"),
    [(("--tokens", "4"), "short_output"), (("--usage", "none"), "tokens_estimated")],
)
def test_answers_that_are_not_what_was_asked_for_are_flagged(tmp_path, options, flag):
    run = tmp_path / "run.json"
    with engine_process("--ttft-ms", "5", "--tpot-ms", "1", *options) as engine:
        sweep("--url", engine.url, "--levels", "1", "--output-tokens", "8", "--json", str(run))
    (level,) = json.loads(run.read_text())["levels"]
    assert (level["status"], flags_of(level)) == ("flagged", [flag])


def test_a_key_is_sent_and_is_nowhere_else(tmp_path):
    key = tmp_path / "key"
    key.write_text("s3cr3t-marker\n")
    out = [tmp_path / "run.json", tmp_path / "samples.jsonl"]
    with engine_process() as engine:
        done = sweep(
            "--url", engine.url, "--levels", "1", "--requests", "2", "--api-key-file", str(key),
            "--json", str(out[0]), "--samples", str(out[1]),
        )  # fmt: skip
    told = done.stdout + done.stderr + "".join(path.read_text() for path in out)
    assert "s3cr3t-marker" not in told
    key.write_text("schlüssel")
    refused = sweep("--url", engine.url, "--api-key-file", str(key))
    assert "cannot carry" in refused.stderr


def test_a_dry_run_measures_nothing():
    done = sweep("--url", "http://127.0.0.1:9", "--dry-run", "--levels", "1,8")
    assert done.returncode == 0
    assert "chat-64-32: level   8: 24 requests" in done.stdout
    assert "0 engine starts" in done.stdout


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_sweep_keeps_its_levels_and_says_so(sign, code, tmp_path):
    run = tmp_path / "run.json"
    with engine_process("--ttft-ms", "50", "--tpot-ms", "10") as engine:
        command = [AGENT, "sweep", "--url", engine.url, "--levels", "1,2,4", "--json", str(run)]
        process = subprocess.Popen(
            [*command, "--budget", "1h", "--requests", "11"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while not (run.exists() and json.loads(run.read_text())["levels"]):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(sign)
        stopped = time.monotonic()
        out, err = process.communicate(timeout=20)
    assert process.returncode == code, err
    assert time.monotonic() - stopped < 5
    assert f"kept in {run}" in err, out
    levels = {x["concurrency"]: x for x in json.loads(run.read_text())["levels"]}
    assert status_of(levels[1]) == "valid"
    assert (levels[2]["status"], levels[2]["reason"]) == ("failed", "interrupted")
    assert (levels[4]["status"], levels[4]["reason"]) == ("skipped", "interrupted")
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_load_generator_that_dies_costs_its_level_and_no_more(tmp_path):
    run = tmp_path / "run.json"
    with engine_process("--ttft-ms", "200", "--tpot-ms", "20") as engine:
        command = [AGENT, "sweep", "--url", engine.url, "--levels", "1,2", "--json", run]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        parent, deadline = psutil.Process(process.pid), time.monotonic() + 30
        while not (found := [x for x in parent.children() if "loadgen" in " ".join(x.cmdline())]):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.0)
        found[0].kill()
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert b"Traceback" not in err
    levels = json.loads(run.read_text())["levels"]
    assert [(x["status"], x["reason"]) for x in levels] == [
        ("failed", "client_died"),
        ("skipped", "lower_level_failed"),
    ]


def test_failing_requests_are_samples_with_a_reason_and_exit_1(tmp_path):
    samples = tmp_path / "samples.jsonl"
    # The first request, which asks whether it answers at all, is let through.
    with engine_process("--fault", "reset", "--fault-every", "2", "--ttft-ms", "5") as engine:
        done = sweep(
            "--url", engine.url, "--levels", "1", "--requests", "12", "--samples", str(samples)
        )
    rows = lines_of(samples)
    assert {row["status"] for row in rows} == {"ok", "failed"}
    assert {row["reason"] for row in rows if row["status"] == "failed"} == {"connection_reset"}
    assert "flagged" in done.stdout
    assert "errors" in done.stdout


def test_when_everything_fails_the_levels_above_are_not_tried(tmp_path):
    run = tmp_path / "run.json"
    with engine_process("--fault", "in_band", "--fault-after", "0") as engine:
        done = sweep("--url", engine.url, "--levels", "1,2", "--json", str(run))
    assert done.returncode == 1
    assert "in_band_error" in done.stderr
    with engine_process("--tokens", "1", "--fault", "hang", "--fault-every", "2") as engine:
        done = sweep("--url", engine.url, "--levels", "1,2", "--requests", "1", "--budget", "5s")
    assert done.returncode in {0, 1}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--levels", "70000"), "<= 4096"),
        (("--requests", str(10**20)), "<="),
        (("--prompt-tokens", str(10**10)), "<="),
        (("--output-tokens", str(10**11)), "<="),
        (("--json", "/tmp/x.json", "--samples", "/tmp/x.json"), "name two files"),
        (("--json", os.devnull), "leads into /dev, /proc or /sys"),
    ],
)
def test_what_nobody_means_is_refused_at_once(options, says):
    done = sweep("--url", "http://127.0.0.1:9", *options)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr


def test_an_engine_that_is_another_from_one_level_to_the_next_is_told(tmp_path):
    """Ollama, a supervisor or a model swapper would do so without a word."""
    run = tmp_path / "run.json"
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    first = ["--port", port, "--ttft-ms", "30", "--tpot-ms", "4"]
    with engine_process(*first) as engine:
        command = [AGENT, "sweep", "--url", engine.url, "--levels", "1,2", "--json", run]
        process = subprocess.Popen(
            [*command, "--requests", "12", "--budget", "1h"], stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 40
        while not (run.exists() and json.loads(run.read_text())["levels"]):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    with engine_process(*first):
        process.wait(60)
    one, two = json.loads(run.read_text())["levels"]
    assert "engine_restarted" not in one["flags"]
    assert "engine_restarted" in two["flags"] or two["status"] == "failed"


def test_a_reader_that_goes_away_costs_the_table_and_not_the_sweep(tmp_path):
    run = tmp_path / "run.json"
    with engine_process("--ttft-ms", "30", "--tpot-ms", "2") as engine:
        command = [AGENT, "sweep", "--url", engine.url, "--levels", "1,2", "--requests", "4"]
        process = subprocess.Popen(
            [*command, "--json", run], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
    assert process.wait(20) == 0, err
    assert err == b""
    assert len(json.loads(run.read_text())["levels"]) == 2


def test_a_full_disk_under_the_output_is_one_line():
    with Path("/dev/full").open("wb") as full:
        command = [AGENT, "inspect", "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr == b"edgesweep-agent: output: No space left on device\n"
