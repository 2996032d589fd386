"""Planted secrets are looked for wherever they might come out.

Both daemons run as processes with every log line on, and every service that knows a secret answers
401 with an echo of what it was sent (SEC-01).
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import httpx
import paho.mqtt.client as paho
import pytest

from edgesweep_agent.cli import COMMANDS as AGENT_COMMANDS
from edgesweep_collector.cli import COMMANDS as COLLECTOR_COMMANDS
from mosquitto import free_port, needs_mosquitto, running_mosquitto
from pki import Authority
from planted import Echo, Engine, Processes, Secrets, serving
from postgres import PASSWORD, needs_postgres

BIN = Path(sys.executable).parent
CASES = json.loads((Path(__file__).parents[1] / "fixtures/cases/security.json").read_text())


def case(name):
    return next(one for one in CASES if one["id"] == name)


def run(program, *words):
    return subprocess.run(
        [BIN / program, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Daemon:
    """A daemon of ours with its log, which may be asked to die with a dump."""

    def __init__(self, program, config):
        self.log = config.with_suffix(".log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [BIN / program, "serve", "--config", config],
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONFAULTHANDLER": "1"},
            )

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(20)


def until(condition, log, within_s=30.0):
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)
    return found


PLAN = """
name = "secrets"
levels = [1]
requests = 8
order = "ascending"
[[workloads]]
prompt_tokens = 16
output_tokens = 2
[[contenders]]
mode = "attached"
url = "{url}"
api_key_file = "{api_key}"
"""
AGENT = """
heartbeat_s = 0.5
telemetry_s = 0
[device]
id = "press-07"
[log]
level = "debug"
[spool]
path = "spool.db"
[control]
socket = "agent.sock"
[plans.only]
file = "plan.toml"
run = "once"
[uplink]
kind = "mqtt"
host = "127.0.0.1"
port = {port}
username_file = "{user}"
password_file = "{password}"
[uplink.tls]
ca_file = "{ca}"
cert_file = "{cert}"
key_file = "{key}"
"""
COLLECTOR = """
[archive]
url = "sqlite:///{root}/archive.db"
[log]
level = "debug"
[influx]
url = "{influx}"
bucket = "fleet"
token_file = "{influx_token}"
[http]
listen = "127.0.0.1:{http}"
token_file = "{http_token}"
[mqtt]
host = "127.0.0.1"
port = {port}
username_file = "{user}"
password_file = "{password}"
[mqtt.tls]
ca_file = "{ca}"
cert_file = "{cert}"
key_file = "{key}"
"""


class Plant:
    """Broker, engine, InfluxDB, agent and collector, each with a secret that another holds."""

    def __init__(self, root):
        self.root = root
        self.secrets = Secrets(root / "secrets")
        self.ca = Authority(self.secrets.folder / "ca")
        self.http = free_port()
        for name in ("api_key", "influx_token", "http_token"):
            self.secrets.plant(name)
        self.users = self.secrets.folder / "passwords"
        for name in ("press-07", "collector"):
            (self.secrets.folder / f"{name}.user").write_text(name)
            self.secrets.plant(f"{name}.password")

    def broker(self):
        server = self.ca.server()
        self.let_in("nobody")
        return running_mosquitto(
            self.root,
            f"allow_anonymous false\npassword_file {self.users}\ncafile {self.ca.file}\n"
            f"certfile {server.cert}\nkeyfile {server.key}\nrequire_certificate true",
        )

    def let_in(self, *names):
        """Have the broker know these passwords, once it is told to look."""
        texts = self.secrets.texts
        lines = [f"{name}:{texts.get(f'{name}.password', 'x')}\n" for name in names]
        self.users.write_text("".join(lines))
        subprocess.run(["mosquitto_passwd", "-U", self.users], check=True, capture_output=True)

    def of(self, name):
        """What a configuration says of one who connects to the broker."""
        pair = self.ca.client(name)
        self.secrets.plant_key(f"{name}.key", pair.key)
        folder = self.secrets.folder
        files = {"user": f"{folder}/{name}.user", "password": f"{folder}/{name}.password"}
        return files | {"ca": self.ca.file, "cert": pair.cert, "key": pair.key}

    def configure(self, port, engine, influx):
        folder = self.secrets.folder
        plan = PLAN.format(url=engine.url, api_key=folder / "api_key")
        (self.root / "plan.toml").write_text(plan)
        agent = AGENT.format(port=port, **self.of("press-07"))
        (self.root / "agent.toml").write_text(agent)
        collector = COLLECTOR.format(
            root=self.root,
            influx=influx.url,
            influx_token=folder / "influx_token",
            http_token=folder / "http_token",
            http=self.http,
            port=port,
            **self.of("collector"),
        )
        (self.root / "collector.toml").write_text(collector)

    def archived(self):
        path = self.root / "archive.db"
        if not path.exists():
            return {}
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return dict(db.execute("SELECT kind, COUNT(*) FROM envelopes GROUP BY kind"))
        except sqlite3.OperationalError:
            return {}
        finally:
            db.close()

    def read(self, path, **options):
        return httpx.get(f"http://127.0.0.1:{self.http}{path}", **options)

    def overhear(self, port):
        """Somebody at the broker who notes whatever is published."""
        heard = []
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        pair = self.ca.client("ear")
        client.tls_set(str(self.ca.file), str(pair.cert), str(pair.key))
        client.username_pw_set("collector", self.secrets.texts["collector.password"])
        client.on_message = lambda _c, _u, one: heard.append(one.topic.encode() + one.payload)
        client.on_connect = lambda *_: client.subscribe("#", qos=1)
        client.connect("127.0.0.1", port)
        client.loop_start()
        return client, heard


@needs_mosquitto
def test_sec_01_a_planted_secret_comes_out_nowhere(tmp_path):
    assert case("SEC-01")["expected"] == {"occurrences_of_CANARY": 0}
    plant = Plant(tmp_path)
    secrets, said = plant.secrets, []
    with (
        serving(Engine, left=6) as engine,
        serving(Echo) as influx,
        plant.broker() as broker,
        Processes(secrets) as processes,
    ):
        plant.configure(broker.port, engine, influx)
        collector = Daemon("edgesweep-collector", tmp_path / "collector.toml")
        agent = Daemon("edgesweep-agent", tmp_path / "agent.toml")
        try:
            # The broker knows neither password, the engine takes back its key.
            until(lambda: engine.refused, agent.log)
            until(lambda: broker.log.read_text().count("not authorised") >= 2, agent.log)
            plant.let_in("press-07", "collector")
            broker._process.send_signal(signal.SIGHUP)
            until(lambda: "Reloading" in broker.log.read_text(), broker.log)
            ear, heard = plant.overhear(broker.port)
            until(lambda: plant.archived().get("run", 0) >= 2, agent.log, 60)
            until(lambda: influx.refused, collector.log)
            until(lambda: "influx_auth" in collector.log.read_text(), collector.log)
            token = {"Authorization": f"Bearer {secrets.texts['http_token']}"}
            for path in ("/healthz", "/metrics", "/v1/runs", "/absent"):
                for headers in (token, {"Authorization": f"Basic {secrets.texts['http_token']}"}):
                    answer = plant.read(path, headers=headers)
                    said += [answer.text, str(answer.headers)]
            said.append(
                run("edgesweep-agent", "spool", "status", "--config", tmp_path / "agent.toml")
            )
            ear.disconnect()
            ear.loop_stop()
        finally:
            # The crash dump: where each thread was, and nothing of what it held.
            agent.end(signal.SIGABRT)
            collector.end(signal.SIGABRT)
    report = ["report", "--out", tmp_path / "report.html"]
    for words in (["runs"], ["runs", "--json"], ["devices", "--json"], ["compare"], report):
        said.append(run("edgesweep-collector", *words, "--config", tmp_path / "collector.toml"))
    assert "Fatal Python error: Aborted" in agent.log.read_text()
    assert "Fatal Python error: Aborted" in collector.log.read_text()
    assert len(heard) > 3
    assert processes.seen > 100
    assert processes.found == set()
    assert secrets.found_in("".join(map(str, said))) == set()
    assert secrets.found_in(b"".join(heard).decode("latin-1")) == set()
    assert secrets.found_below(tmp_path) == {}


def test_sec_01_the_search_would_find_one(tmp_path):
    secrets = Secrets(tmp_path / "secrets")
    secrets.plant("token")
    (tmp_path / "a.log").write_text(f"sent {secrets.texts['token']}")
    assert secrets.found_below(tmp_path) == {"a.log": {"token"}}
    with Processes(secrets) as processes:
        words = [sys.executable, "-c", "import time; time.sleep(0.5)", secrets.texts["token"]]
        subprocess.run(words, check=True)
    assert len(processes.found) == 1


def test_sec_01_a_refused_key_comes_out_of_no_command(tmp_path):
    secrets = Secrets(tmp_path / "secrets")
    key, state = secrets.plant("api_key"), tmp_path / "state"
    sweep = ["--levels", "1", "--requests", "3", "--prompt-tokens", "16", "--output-tokens", "2"]
    sweep += ["--json", tmp_path / "run.json", "--samples", tmp_path / "samples.jsonl"]
    said = []
    with serving(Echo) as echo, serving(Engine, left=6) as engine, Processes(secrets) as processes:
        for words in (["probe", echo.url], ["sweep", "--url", echo.url]):
            said.append(run("edgesweep-agent", *words, "--api-key-file", key))
            assert said[-1].returncode == 1
        words = ["sweep", "--url", engine.url, "--api-key-file", key, "--state", state]
        said.append(run("edgesweep-agent", *words, "--keep-text", *sweep))
        assert echo.refused
        assert engine.refused
    assert set(echo.refused + engine.refused) <= {"", f"Bearer {secrets.texts['api_key']}"}
    samples = (tmp_path / "samples.jsonl").read_text().splitlines()
    assert {json.loads(line)["reason"] for line in samples} >= {"http_401"}
    assert processes.found == set()
    assert secrets.found_in("".join(map(str, said))) == set()
    assert secrets.found_below(tmp_path) == {}


def test_sec_01_a_postgresql_password_comes_out_of_no_refusal(tmp_path):
    secrets = Secrets(tmp_path / "secrets")
    file = secrets.plant("from_file")
    secrets.plant("in_url")
    password, port = secrets.texts["in_url"], free_port()
    archives = [
        f'url = "postgresql+psycopg://edgesweep:{password}@127.0.0.1:{port}/edgesweep"',
        f'url = "postgresql+psycopg://edgesweep:{password}@127.0.0.1:port/edgesweep"',
        f'url = "postgresql://edgesweep:{password}@127.0.0.1:{port}/edgesweep"',
        f'url = "postgres://edgesweep:{password}@127.0.0.1:{port}/edgesweep"',
        f'url = "mysql://edgesweep:{password}@127.0.0.1:{port}/edgesweep"',
        f'url = "edgesweep:{password}@127.0.0.1/edgesweep"',
        f'url = "postgresql+psycopg://edgesweep@127.0.0.1:{port}/e"\npassword_file = "{file}"',
        f'url = "postgresql+psycopg://edgesweep:{password}@127.0.0.1:{port}/e"\nurl = "twice"',
        f'url = "postgresql+psycopg://edgesweep:{password}@127.0.0.1:{port}/e"\nunknown = 1',
    ]
    with Processes(secrets) as processes:
        for archive in archives:
            config = secrets.folder / "collector.toml"
            config.write_text(f'[archive]\n{archive}\n[log]\nlevel = "debug"\n')
            for words in (["serve"], ["runs"]) if archive is archives[0] else (["serve"],):
                done = run("edgesweep-collector", *words, "--config", config)
                assert done.returncode in (1, 78), (archive, done)
                assert secrets.found_in(done.stdout + done.stderr) == set(), archive
                assert "Traceback" not in done.stderr, (archive, done.stderr)
    assert processes.found == set()


@needs_postgres
def test_sec_01_postgresql_itself_is_told_and_nobody_else(tmp_path, postgres):
    secrets = Secrets(tmp_path / "secrets")
    wrong, right = secrets.plant("wrong"), tmp_path / "secrets" / "right"
    secrets.texts["right"] = PASSWORD
    right.write_text(PASSWORD)
    url, config = postgres.tcp_url(postgres.new_database()), tmp_path / "secrets" / "collector.toml"
    with Processes(secrets) as processes:
        for file, code in ((wrong, 1), (right, 0)):
            config.write_text(
                f'[archive]\nurl = "{url}"\npassword_file = "{file}"\n[log]\nlevel = "debug"\n'
            )
            with (tmp_path / "log").open("wb") as log:
                command = [BIN / "edgesweep-collector", "serve", "--config", config]
                process = subprocess.Popen(command, stdout=log, stderr=log)
            if code == 0:
                until(lambda: "serving" in (tmp_path / "log").read_text(), tmp_path / "log")
                process.terminate()
            assert process.wait(30) == code
            said = (tmp_path / "log").read_text()
            assert secrets.found_in(said) == set(), said
            assert ("password authentication failed" in said) is (code == 1)
    assert processes.found == set()


# In one process, for each of them takes most of a second to start.
EVERY_HELP = """
from {package}.cli.commands import PROGRAM
for words in {asked}:
    try:
        PROGRAM.run(words)
    except SystemExit as error:
        assert not error.code, words
"""


@pytest.mark.parametrize(
    ("program", "commands"),
    [("edgesweep-agent", AGENT_COMMANDS), ("edgesweep-collector", COLLECTOR_COMMANDS)],
)
def test_sec_01_no_help_shows_a_secret_as_a_default(program, commands, tmp_path):
    secrets = Secrets(tmp_path / "secrets")
    secrets.plant("any")
    names = ("API_KEY", "OPENAI_API_KEY", "TOKEN", "PASSWORD", "INFLUX_TOKEN", "MQTT_PASSWORD")
    planted = dict.fromkeys(names, secrets.texts["any"])
    prefixed = {f"EDGESWEEP_{name}": text for name, text in planted.items()}
    asked = [["--help"], *([command, "--help"] for command in commands)]
    package = program.replace("-", "_")
    done = subprocess.run(
        [sys.executable, "-c", EVERY_HELP.format(package=package, asked=asked)],
        env=os.environ | planted | prefixed,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("Usage: ") == len(asked)
    assert secrets.found_in(done.stdout + done.stderr) == set()
