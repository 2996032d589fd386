"""The fleet that does not exist, over the real transports into a real collector."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import pytest

from edgesweep.delivery import Policy
from edgesweep_collector.errors import SettingsError
from edgesweep_collector.settings import load
from edgesweep_collector.simulate.fleet import Options, fleet
from edgesweep_collector.simulate.line import LineDown
from edgesweep_collector.simulate.perform import perform
from edgesweep_collector.simulate.target import dial
from mosquitto import free_port, needs_mosquitto, running_mosquitto

MAIN = "from edgesweep_collector.cli import main; main()"
ENV = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "NO_COLOR": "1"}
CONFIG = """
[archive]
url = "sqlite:///archive.db"
[mqtt]
host = "127.0.0.1"
port = {mqtt}
[grpc]
listen = "127.0.0.1:{grpc}"
[log]
level = "warning"
"""
FAST = ("--speed", "0", "--telemetry", "300s", "--heartbeat", "60s")


def run(*words, within_s=120):
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, words)],
        env=ENV, capture_output=True, text=True, timeout=within_s, check=False,
    )  # fmt: skip


def until(condition, within_s=30.0):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def counted(config):
    """The devices that the archive has heard."""
    done = run("devices", "--config", config, "--json")
    assert done.returncode == 0, done.stderr
    return {one["device_id"] for one in json.loads(done.stdout)["devices"]}


@pytest.fixture
def site(tmp_path):
    """A broker and a collector; the settings' file."""
    with running_mosquitto(tmp_path, "allow_anonymous true\nmax_queued_messages 0") as broker:
        config = tmp_path / "collector.toml"
        config.write_text(CONFIG.format(mqtt=broker.port, grpc=free_port()))
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", MAIN, "serve", "--config", str(config)],
                env=ENV, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            until(lambda: "SUBSCRIBE from edgesweep-collector" in broker.log.read_text())
            yield config
        finally:
            process.terminate()
            assert process.wait(20) == 0, (tmp_path / "log").read_text()


@needs_mosquitto
@pytest.mark.parametrize("transport", ["mqtt", "grpc"])
def test_the_archive_has_what_was_made_and_a_comparison_finds_what_was_planted(site, transport):
    done = run(
        "simulate", "--config", site, "--transport", transport, "--devices", 8, "--seed", 5,
        "--classes", "x86.rtx-a2000-12g", "--runs", 1, "--json", *FAST,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["made"] == told["acked"] > 400
    assert (told["waiting"], told["rejected"]) == (0, 0)
    assert 0 < told["ack_p50_s"] <= told["ack_p99_s"]
    assert counted(site) == {f"sim5-rtx-a2000-12g-{n:04d}" for n in range(8)}

    truly = told["truth"]["classes"]["x86.rtx-a2000-12g"]
    asked = [word for run_id in truly["first_runs"] for word in ("--run", run_id)]
    compared = run("compare", "--config", site, *asked, "--metric", "output_tokens_per_s", "--json")
    assert compared.returncode == 0, compared.stderr
    answer = json.loads(compared.stdout)["answers"]["output_tokens_per_s"]
    expected = truly["answers"]["output_tokens_per_s"]
    assert answer["verdict"] == expected["verdict"] == "CROSSOVER_A_TO_B"
    assert answer["crossover"] == pytest.approx(expected["on_levels"], rel=0.1)


@needs_mosquitto
def test_an_interrupt_ends_it_with_the_last_line(site):
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "simulate", "--config", str(site), "--devices", "5",
         "--heartbeat", "1s", "--telemetry", "1s"],
        env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until(lambda: len(counted(site)) == 5)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert out.splitlines()[-1].startswith("made ")
    assert "Traceback" not in errors


@pytest.mark.anyio
async def test_nobody_who_answers_is_a_failure_and_not_a_wait_for_ever():
    @asynccontextmanager
    async def deaf(caller):
        raise LineDown("nobody there")
        yield

    found = fleet(Options(1, 0, 3, span_s=1.0, heartbeat_s=0.2, telemetry_s=0.0))
    outcome = await perform(
        found, deaf, speed=0.0, policy=Policy(backoff_s=0.01, backoff_max_s=0.05),
        tell=lambda _: None, patience_s=0.4,
    )  # fmt: skip
    assert outcome.exit_code == 1
    assert outcome.waiting == outcome.tally.made > 3
    assert outcome.tally.down == "nobody there"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--devices", "0"), 2, "devices"),
        (("--runs", "1", "--duration", "5m"), 2, "not both"),
        (("--classes", "abacus"), 2, "no class 'abacus'"),
        (("--duration", "soon"), 2, "is no duration"),
        (("--start", "yesterday"), 2, "is no time"),
        ((), 78, "name the place with --to"),
        (("--to", "192.0.2.1:1883"), 78, "is not this machine"),
        (("--to", "nowhere"), 78, "is not host:port"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(words, code, text):
    done = run("simulate", *words)
    assert done.returncode == code
    assert text in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_where_it_goes_comes_from_the_settings(tmp_path):
    config = tmp_path / "collector.toml"
    config.write_text(CONFIG.format(mqtt=1, grpc=0))
    settings = load(config)
    with pytest.raises(SettingsError, match="port 0 is chosen by the system"):
        dial("grpc", settings, None, anywhere=False)
    assert dial("mqtt", settings, None, anywhere=False)
    assert dial("mqtt", None, "192.0.2.1:1883", anywhere=True)
    tls = '\n[mqtt.tls]\nca_file = "a"\ncert_file = "b"\nkey_file = "c"\n'
    config.write_text(CONFIG.format(mqtt=1, grpc=2) + tls)
    with pytest.raises(SettingsError, match=r"\[mqtt\.tls\]: simulated devices have no cert"):
        dial("mqtt", load(config), None, anywhere=False)
