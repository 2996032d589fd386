"""The collector as its users run it: a process with a settings file, signals and HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import grpc
import httpx
import pytest

import wire
from edgesweep.records import Birth, RunState
from edgesweep.v1 import transport_pb2 as pb
from edgesweep_collector.archive.archive import Archive
from mosquitto import free_port

_MAIN = "from edgesweep_collector.cli import main; main()"
_ENV = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "PYTHONWARNINGS": "error::ResourceWarning",
    "NO_COLOR": "1",
    "COLUMNS": "120",
}


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-c", _MAIN, *map(str, arguments)],
        env=_ENV,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Service:
    def __init__(self, folder):
        self.grpc, self.http = free_port(), free_port()
        self.config = folder / "collector.toml"
        self.url = f"sqlite:///{folder / 'data' / 'archive.db'}"
        self.log = folder / "collector.log"
        self.configure()

    def configure(self, more=""):
        self.config.write_text(
            f'[archive]\nurl = "{self.url}"\n[grpc]\nlisten = "127.0.0.1:{self.grpc}"\n'
            f'[http]\nlisten = "127.0.0.1:{self.http}"\n{more}'
        )

    def start(self):
        with self.log.open("ab") as log:
            arguments = ["serve", "--config", str(self.config)]
            self.process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, *arguments], env=_ENV, stderr=log, stdout=log
            )
        deadline = time.monotonic() + 20
        while True:
            assert self.process.poll() is None, self.log.read_text()
            try:
                self.get("/healthz")
            except httpx.TransportError:
                assert time.monotonic() < deadline, self.log.read_text()
                time.sleep(0.05)
            else:
                return self

    def get(self, path):
        return httpx.get(f"http://127.0.0.1:{self.http}{path}", timeout=10)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(10)

    def deliver(self, *raws):
        """Send envelopes on one stream; the acks that came until it ended."""
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc}") as channel:
            call = channel.stream_stream(
                "/edgesweep.v1.Ingest/Deliver", response_deserializer=pb.Ack.FromString
            )
            return list(call(iter(raws), timeout=10))

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path)
    made.start()
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait(10)


def test_it_archives_answers_and_stops_in_good_order(service):
    acks = service.deliver(
        wire.raw(Birth(wire.DEVICE, 1, 1), 1),
        wire.raw(wire.level(1), 2),
        wire.raw(wire.level(2), 3),
        wire.raw(wire.run(state=RunState.COMPLETE, ended_wall_ns=9), 4),
        wire.damaged(wire.level(4), 5),
    )
    assert {ack.status for ack in acks} == {pb.Ack.STORED, pb.Ack.REJECTED}

    health = service.get("/healthz")
    assert health.status_code == 200
    assert health.json() == {"status": "ok", "parts": {"archive": "ok", "grpc": "ok"}}

    metrics = service.get("/metrics").text
    for line in (
        'edgesweep_received_total{transport="grpc"} 5.0',
        'edgesweep_rejected_total{reason="crc"} 1.0',
        "edgesweep_stored_total 4.0",
        "edgesweep_archive_rows 4.0",
    ):
        assert line in metrics.splitlines()
    assert "edgesweep_archive_commit_seconds_bucket" in metrics

    (listed,) = service.get("/v1/runs").json()["runs"]
    assert (listed["run_id"], listed["state"], listed["n_archived"]) == ("run-1", "complete", 2)
    run = service.get("/v1/runs/run-1").json()
    assert run["schema"] == "edgesweep.run/1"
    assert [level["concurrency"] for level in run["levels"]] == [1, 2]

    assert service.end() == 0
    lines = service.lines()
    assert [line["msg"] for line in lines[-2:]] == ["stopping", "stopped"]
    assert {line["level"] for line in lines} == {"info", "warning"}


def test_the_pages_refuse_what_they_cannot_answer(service):
    assert service.get("/v1/runs/absent").status_code == 404
    assert service.get("/v1/runs?device=absent").json() == {"runs": []}
    for limit in ("0", "x", "-1", "1001", "²"):
        assert service.get(f"/v1/runs?limit={limit}").status_code == 400
    assert httpx.post(f"http://127.0.0.1:{service.http}/v1/runs", json={}).status_code == 405


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_was_acked_is_there_after_a_restart(service, number):
    raws = [wire.raw(wire.level(n), n) for n in range(1, 101)]
    assert {ack.status for ack in service.deliver(*raws)} == {pb.Ack.STORED}
    assert service.end(number) == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    service.start()
    assert {ack.status for ack in service.deliver(*raws)} == {pb.Ack.DUPLICATE}
    assert "edgesweep_archive_rows 100.0" in service.get("/metrics").text
    assert service.end() == 0


def test_a_stop_is_quick_with_an_open_stream(service):
    with grpc.insecure_channel(f"127.0.0.1:{service.grpc}") as channel:
        call = channel.stream_stream(
            "/edgesweep.v1.Ingest/Deliver", response_deserializer=pb.Ack.FromString
        )
        waiting = iter([wire.raw(wire.level(1), 1)])

        def forever():
            yield next(waiting)
            while service.process.poll() is None:
                time.sleep(0.05)

        acks = call(forever())
        assert next(acks).status == pb.Ack.STORED
        began = time.monotonic()
        assert service.end() == 0
        assert time.monotonic() - began < 3


def test_a_broker_that_is_not_there_makes_it_unwell_but_not_deaf(service):
    service.end()
    service.configure(f'[mqtt]\nhost = "127.0.0.1"\nport = {free_port()}\n')
    service.start()
    deadline = time.monotonic() + 5
    while service.get("/healthz").json()["parts"]["mqtt"] != "the broker does not answer":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    health = service.get("/healthz")
    assert (health.status_code, health.json()["status"]) == (503, "unwell")
    assert health.json()["parts"]["grpc"] == "ok"
    assert service.deliver(wire.raw(wire.level(1), 1))[0].status == pb.Ack.STORED
    assert "edgesweep_mqtt_connected 0.0" in service.get("/metrics").text
    assert service.end() == 0


def test_wrong_settings_are_one_line_and_78(tmp_path):
    service = Service(tmp_path)
    wrong = {
        "[mqtt]\nhost = 5\n": "mqtt.host: Expected `str`",
        '[mqtt]\nhost = "b"\npassword_file = "/nowhere"\n': "mqtt.password_file: cannot read",
    }
    for more, message in wrong.items():
        service.configure(more)
        done = command("serve", "--config", service.config)
        assert (done.returncode, done.stdout) == (78, "")
        assert done.stderr.startswith(f"edgesweep-collector: {service.config}: {message}")
        assert done.stderr.count("\n") == 1
    service.config.write_text(
        f'[archive]\nurl = "{service.url}"\n[grpc]\nlisten = "0.0.0.0:{service.grpc}"\n'
    )
    done = command("serve", "--config", service.config)
    assert done.returncode == 78
    assert "without TLS" in done.stderr


@pytest.mark.parametrize("part", ["grpc", "http"])
def test_a_taken_address_is_one_line_and_1(tmp_path, part):
    service = Service(tmp_path)
    with socket.create_server(("127.0.0.1", getattr(service, part))):
        done = command("serve", "--config", service.config)
    assert done.returncode == 1
    message = done.stderr.splitlines()[-1]
    assert message.startswith(f"edgesweep-collector: {part}.listen: cannot bind 127.0.0.1:")
    assert "Traceback" not in done.stderr


def test_the_command_line_reads_the_archive(tmp_path):
    service = Service(tmp_path)
    done = command("runs", "--config", service.config)
    assert done.returncode == 1
    assert "there is no archive at" in done.stderr

    archive = Archive.open(service.url)
    evil = wire.run("run-2", started_wall_ns=2**62, reason="[red]\x1b[31m")
    archive.append(
        [
            wire.received(Birth(wire.DEVICE, 1, 1), 1),
            wire.received(wire.level(1), 2),
            wire.received(wire.run(), 3),
            wire.received(evil, 4),
        ]
    )
    archive.close()
    listed = command("runs", "--config", service.config, "--json")
    assert [run["run_id"] for run in json.loads(listed.stdout)["runs"]] == ["run-2", "run-1"]
    table = command("runs", "--config", service.config).stdout
    assert "[red]?[31m" in table
    assert "\x1b" not in table
    run = json.loads(command("runs", "run-1", "--config", service.config, "--json").stdout)
    assert run["levels"][0]["output_tokens_per_s"] == 40.5
    shown = command("runs", "run-1", "--config", service.config).stdout
    assert "40.5" in shown
    assert "0.29 s" in shown
    assert command("runs", "absent", "--config", service.config).returncode == 1
    (device,) = json.loads(command("devices", "--config", service.config, "--json").stdout)[
        "devices"
    ]
    assert (device["device_id"], device["labels"]) == ("n97-01", {"site": "ulm"})
    assert "n97-16g" in command("devices", "--config", service.config).stdout


def test_help_and_version():
    assert command("--version").stdout.startswith("edgesweep-collector 0.")
    text = command("--help").stdout
    for word in ("serve", "devices", "runs", "crossover", "Examples"):
        assert word in text
    assert command().returncode == 2
    assert command("serve").returncode == 2
