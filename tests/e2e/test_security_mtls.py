"""Both daemons over mutual TLS, from the making of the key on: who is let in, and who is not."""

from __future__ import annotations

import getpass
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from mosquitto import Mosquitto, free_port, needs_mosquitto
from pki import Authority

BIN = Path(sys.executable).parent
TOKEN = "0123456789abcdef0123456789abcdef"
AGENT = """
heartbeat_s = 0.3
telemetry_s = 0
[device]
id = "{name}"
[spool]
path = "spool.db"
[control]
socket = "agent.sock"
[delivery]
backoff_s = 0.2
backoff_max_s = 1.0
spread_s = 0
[uplink]
kind = "{kind}"
{where}
[uplink.tls]
ca_file = "ca.crt"
cert_file = "device.crt"
key_file = "device.key"
"""
COLLECTOR = """
[archive]
url = "sqlite:///archive.db"
[http]
listen = "0.0.0.0:{http}"
token_file = "token"
[{kind}]
{where}
[{kind}.tls]
ca_file = "ca/ca.crt"
cert_file = "ca/{pair}.crt"
key_file = "ca/{pair}.key"
denylist_file = "denied"
"""


def run(program, *words):
    return subprocess.run(
        [BIN / program, *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )


def until(condition, log, within_s=30.0):
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)
    return found


class Daemon:
    """One of our daemons as a process, with its log."""

    def __init__(self, program, config):
        self.log = config.with_suffix(".log")
        with self.log.open("ab") as log:
            command = [BIN / program, "serve", "--config", config]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def said(self):
        return self.log.read_text()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


class Site:
    """An authority, a collector, and a broker if the transport wants one."""

    def __init__(self, root, kind):
        self.root, self.kind, self.http = root, kind, free_port()
        self.ca = Authority(root / "ca")
        self.daemons, self.broker = [], None
        self.port = free_port()
        (root / "token").write_text(TOKEN)
        self.denied = root / "denied"
        self.denied.touch()
        (self.ca.server("grpc.plant-4"), self.ca.client("collector.1"))
        self.tables = {
            "grpc": ("grpc.plant-4", f'listen = "0.0.0.0:{self.port}"'),
            "mqtt": ("collector.1", f'host = "127.0.0.1"\nport = {self.port}'),
        }

    def start(self):
        if self.kind == "mqtt":
            self._start_broker()
        pair, where = self.tables[self.kind]
        text = COLLECTOR.format(http=self.http, kind=self.kind, where=where, pair=pair)
        (self.root / "collector.toml").write_text(text)
        self.collector = self._daemon("edgesweep-collector", self.root / "collector.toml")

    def _start_broker(self):
        server, out = self.ca.server("broker.plant-4"), self.root / "broker"
        files = ["--ca", self.ca.file, "--cert", server.cert, "--key", server.key]
        where = ["--out", out, "--port", self.port, "--collector", "collector.1"]
        done = run("edgesweep-collector", "mosquitto", *files, *where)
        assert done.returncode == 0, done.stderr
        config = out / "mosquitto.conf"
        config.write_text(f"{config.read_text()}\nuser {getpass.getuser()}\n")
        self.broker = Mosquitto(self.root, port=self.port)
        self.broker._config = config
        self.broker.start()

    def device(self, name, *, authority=None, certified=None):
        """A device that makes its key, has it certified as somebody, and starts."""
        folder = self.root / name
        folder.mkdir()
        where = (
            f'address = "127.0.0.1:{self.port}"'
            if self.kind == "grpc"
            else f'host = "127.0.0.1"\nport = {self.port}'
        )
        config = folder / "agent.toml"
        config.write_text(AGENT.format(name=name, kind=self.kind, where=where))
        (folder / "ca.crt").write_bytes(self.ca.file.read_bytes())
        made = run("edgesweep-agent", "csr", "--config", config)
        assert made.returncode == 0, made.stderr
        signer = authority or self.ca
        request = made.stdout.encode()
        (folder / "device.crt").write_bytes(signer.signed_request(request, certified or name))
        return self._daemon("edgesweep-agent", config)

    def status(self, name):
        command = ("spool", "status", "--json", "--config", self.root / name / "agent.toml")
        done = run("edgesweep-agent", *command)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def archived(self):
        path = self.root / "archive.db"
        if not path.exists():
            return {}
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            rows = db.execute("SELECT device_id, COUNT(*) FROM envelopes GROUP BY device_id")
            return dict(rows)
        except sqlite3.OperationalError:
            return {}
        finally:
            db.close()

    def read(self, path, **options):
        return httpx.get(f"http://127.0.0.1:{self.http}{path}", **options)

    def _daemon(self, program, config):
        made = Daemon(program, config)
        self.daemons.append(made)
        return made

    def stop(self):
        codes = [daemon.end() for daemon in reversed(self.daemons)]
        if self.broker is not None:
            self.broker.kill()
        return codes


@pytest.fixture(params=["grpc", pytest.param("mqtt", marks=needs_mosquitto)])
def site(request, tmp_path):
    made = Site(tmp_path, request.param)
    try:
        made.start()
        yield made
    finally:
        codes = made.stop()
    assert set(codes) == {0}


def test_devices_are_who_their_certificates_say(site, tmp_path):
    good = site.device("press-07")
    until(lambda: site.archived().get("press-07", 0) >= 3, good.log)

    foreign = Authority(tmp_path / "foreign", "Another CA")
    impostor = site.device("press-08", certified="press-07")
    stranger = site.device("press-09", authority=foreign)
    # This the device itself finds, before any transport is asked,
    until(lambda: "names press-07, but this device is press-08" in impostor.said(), impostor.log)
    # and this the other side says.
    told = re.compile("does not know the authority|refuses our certificate")
    until(lambda: told.search(stranger.said()), stranger.log)
    assert set(site.archived()) == {"press-07"}
    assert site.status("press-09")["rows"] > 0


def test_http_wants_the_token_and_tells_when_certificates_run_out(site):
    until((site.root / "archive.db").exists, site.collector.log)
    bearer = {"Authorization": f"Bearer {TOKEN}"}

    def metrics():
        try:
            return site.read("/metrics", headers=bearer).text
        except httpx.TransportError:
            return ""

    text = until(metrics, site.collector.log)
    table = f'edgesweep_certificate_expires_timestamp_seconds{{table="{site.kind}.tls"}}'
    (line,) = [line for line in text.splitlines() if line.startswith(table)]
    assert abs(float(line.split()[-1]) - time.time() - 30 * 86_400) < 600
    assert site.read("/metrics").status_code == 401
    assert set(site.read("/healthz").json()) == {"status"}


def test_a_denied_device_keeps_what_it_has_until_it_is_let_in_again(site):
    device = site.device("press-07")
    until(lambda: site.archived().get("press-07", 0) >= 2, device.log)
    site.denied.write_text("press-07\n")
    time.sleep(1.5)
    before = site.archived()["press-07"]
    until(lambda: "is on the denylist" in device.said() or site.kind == "mqtt", device.log)
    time.sleep(1)
    # Of heartbeats the newest is kept.
    assert site.status("press-07")["rows"] >= 1
    assert site.archived()["press-07"] == before
    site.denied.write_text("")
    until(lambda: site.archived()["press-07"] > before + 2, device.log)


def test_an_address_that_all_can_reach_wants_a_way_to_keep_them_out(tmp_path):
    (tmp_path / "collector.toml").write_text(
        f'[archive]\nurl = "sqlite:///a.db"\n[http]\nlisten = "0.0.0.0:{free_port()}"\n'
    )
    done = run("edgesweep-collector", "serve", "--config", tmp_path / "collector.toml")
    assert done.returncode == 78
    assert "is not a loopback address, and anyone who reaches it could read" in done.stderr
    assert "Traceback" not in done.stderr
