"""The whole site: three agents, a broker, two collectors, PostgreSQL and InfluxDB, and their lines.

Each part is a real process that can be killed and started again on what it left.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import httpx
import psutil
from faults import AGENTS, COLLECTORS, LINKS
from links import Link, Sent

from collectors import MAIN, environment
from edgesweep_agent import control
from edgesweep_agent.errors import DaemonError
from influx import Influx, running_influx
from influx_rewrite import rewriting
from mosquitto import Mosquitto, free_port
from postgres import PASSWORD, Postgres, running_postgres

HERE = Path(__file__).parent
UP_WITHIN_S = 60.0
_PROGRAMS = {
    "agent": ("-c", "from edgesweep_agent.cli import main; main()"),
    "collector": MAIN,
    "puback": (str(HERE / "puback_agent.py"),),
}
_AGENT = """
heartbeat_s = 3600.0
telemetry_s = 0.0
[device]
id = "{name}"
[spool]
path = "{name}.db"
[control]
socket = "{name}.sock"
[uplink]
kind = "mqtt"
host = "127.0.0.1"
port = {port}
[delivery]
resend_s = 5.0
resend_max_s = 5.0
backoff_s = 0.2
backoff_max_s = 2.0
spread_s = 0.5
stable_s = 5.0
stalled_s = 10.0
[log]
level = "info"
"""
_COLLECTOR = """
[archive]
url = "{url}"
password_file = "{root}/postgres.password"
[mqtt]
host = "127.0.0.1"
port = {broker}
client_id = "{name}"
share = "chaos"
[influx]
url = "http://127.0.0.1:{influx}"
bucket = "{bucket}"
[http]
listen = "127.0.0.1:{http}"
[log]
level = "info"
"""


class Program:
    """One of our own programs."""

    def __init__(self, name: str, kind: str, root: Path, is_up) -> None:
        self.name, self.is_up = name, is_up
        self._command = [
            sys.executable, *_PROGRAMS[kind], "serve", "--config", str(root / f"{name}.toml")
        ]  # fmt: skip
        self._log = root / f"{name}.log"
        self._environment = environment() | {"XDG_STATE_HOME": str(root / "state")}
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment
            )
        self.wait()

    def wait(self) -> None:
        """Return when it answers; a collector also exits of its own where its database is away."""
        deadline = time.monotonic() + UP_WITHIN_S
        while not self.is_up():
            if self._process.poll() is not None:
                time.sleep(0.5)
                with self._log.open("ab") as log:
                    self._process = subprocess.Popen(
                        self._command, stdout=log, stderr=log, env=self._environment
                    )
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} is not up: {self._log.read_text()[-3000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


class Database:
    """The PostgreSQL cluster as something that is killed."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self.stop = server.stop

    def start(self) -> None:
        """Start it; what is left of a killed one may hold its memory for a moment."""
        deadline = time.monotonic() + UP_WITHIN_S
        while True:
            try:
                self._server.start()
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def kill(self) -> None:
        """All of its processes at once, as the kernel would at a power cut."""
        pid = int((self._server.root / "data" / "postmaster.pid").read_text().split()[0])
        postmaster = psutil.Process(pid)
        postmaster.suspend()  # it would begin more of them
        family = [postmaster, *postmaster.children(recursive=True)]
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(family, timeout=10)


class Series:
    """InfluxDB likewise."""

    def __init__(self, server: Influx) -> None:
        self._server = server
        self.start = server.start
        self.stop = server.stop

    def kill(self) -> None:
        self._server._process.kill()
        self._server._process.wait(10)
        self._server._process = None


class Site:
    """Everything, by name.

    Attributes:
        parts: What can be killed and started.
        links: What can be cut.
        sent: What the agents sent to the broker.
    """

    def __init__(self, root: Path, variant: str) -> None:
        self.root, self._variant = root, variant
        self.parts: dict[str, object] = {}
        self.links: dict[str, Link] = {}
        self.sent = Sent()
        self._turns: dict[str, anyio.Lock] = defaultdict(anyio.Lock)
        self._opened = AsyncExitStack()

    async def __aenter__(self):
        try:
            await self._build()
        except BaseException:
            await self._opened.aclose()
            raise
        return self

    async def __aexit__(self, *_error) -> None:
        for link in self.links.values():
            link.heal()
        await self._opened.aclose()

    async def _build(self) -> None:
        enter = self._opened.enter_context
        self.postgres = enter(running_postgres(durable=True))
        self.database = self.postgres.new_database()
        (self.root / "influx").mkdir()
        self.influx = enter(running_influx(self.root / "influx"))
        front = enter(rewriting(self.influx.url))
        front.handle_error = lambda *_: None  # a connection that we reset ourselves
        broker = Mosquitto(self.root, "allow_anonymous true\npersistence false")
        broker.start()
        self._opened.callback(broker.kill)
        self.parts |= {"broker": broker}
        self.parts |= {"postgres": Database(self.postgres), "influx": Series(self.influx)}
        ports = {
            "broker": broker.port,
            "postgres": self.postgres.port,
            "influx": front.server_address[1],
        }
        for name in LINKS:
            who, _, what = name.partition(":")
            spies = self.sent.spy if who in AGENTS else None
            self.links[name] = link = Link(name, ports[what], spies)
            await link.start()
            self._opened.push_async_callback(link.stop)
        (self.root / "postgres.password").write_text(PASSWORD)
        for name in COLLECTORS:
            self._collector(name)
        for name in AGENTS:
            self._agent(name)
        async with anyio.create_task_group() as starting:
            for name in (*COLLECTORS, *AGENTS):
                self._opened.push_async_callback(_in_thread, self.parts[name].end)
                starting.start_soon(_in_thread, self.parts[name].start)

    def _agent(self, name: str) -> None:
        text = _AGENT.format(name=name, port=self.links[f"{name}:broker"].port)
        (self.root / f"{name}.toml").write_text(text)
        kind = "puback" if self._variant == "puback" else "agent"
        socket = self.root / f"{name}.sock"
        self.parts[name] = Program(name, kind, self.root, lambda: _answers(socket))

    def _collector(self, name: str) -> None:
        http = free_port()
        text = _COLLECTOR.format(
            root=self.root,
            name=name,
            url=self.postgres.tcp_url(self.database, self.links[f"{name}:postgres"].port),
            broker=self.links[f"{name}:broker"].port,
            influx=self.links[f"{name}:influx"].port,
            bucket=self.influx.database,
            http=http,
        )
        (self.root / f"{name}.toml").write_text(text)
        self.parts[name] = Program(name, "collector", self.root, lambda: _serves(http))

    async def suffer(self, fault) -> None:
        """Let a fault begin, last and end; what was killed is up again when this returns.

        What begins while the same thing is still coming up from the last one waits for that.
        """
        async with self._turns[fault.whom]:
            if fault.whom in self.links:
                await self._disturb(self.links[fault.whom], fault)
                return
            part = self.parts[fault.whom]
            await _in_thread(part.kill if fault.what == "kill" else part.stop)
            await asyncio.sleep(fault.lasts_s)
            await _in_thread(part.start)

    async def _disturb(self, link: Link, fault) -> None:
        if fault.what == "hole":
            link.hole()
        elif fault.what == "reset":
            link.refusing = True
            link.reset()
        else:
            link.delay_s, link.bytes_per_s = 0.2, 40_000.0
        await asyncio.sleep(fault.lasts_s)
        link.heal()

    async def waiting(self) -> int:
        """Records in all spools; an agent that does not answer counts for one."""
        count = 0
        for name in AGENTS:
            try:
                count += (await control.status(self.root / f"{name}.sock")).rows
            except (DaemonError, TimeoutError):
                count += 1
        return count


async def _in_thread(call, *arguments) -> None:
    await anyio.to_thread.run_sync(call, *arguments)


def _answers(socket: Path) -> bool:
    async def ask():
        return await control.status(socket)

    try:
        return bool(anyio.run(ask))
    except (DaemonError, TimeoutError):
        return False


def _serves(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).status_code in {200, 503}
    except httpx.TransportError:
        return False
