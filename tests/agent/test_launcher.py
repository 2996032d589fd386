from __future__ import annotations

import contextlib
import os
import sys

import anyio
import psutil
import pytest

from edgesweep_agent.errors import LaunchError
from edgesweep_agent.launchers import process as process_launcher
from edgesweep_agent.launchers.process import ProcessLauncher

pytestmark = pytest.mark.anyio

CHILD = (
    "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); print('up'); time.sleep(60)"
)
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def gone(group: int) -> bool:
    """Whether nothing of a process group runs; who has to reap its dead is not our affair."""
    for process in psutil.process_iter(["pid", "status"]):
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            same = os.getpgid(process.pid) == group
            if same and process.status() != psutil.STATUS_ZOMBIE:
                return False
    return True


def python(code: str):
    return lambda _port: [sys.executable, "-c", code]


async def test_a_server_goes_with_its_whole_group():
    async with ProcessLauncher().start(python(CHILD)) as server:
        assert server.exit_text is None
        await anyio.sleep(0.3)
        pid = server.pid
    assert gone(pid)


async def test_a_server_that_does_not_listen_to_reason_is_killed(monkeypatch):
    monkeypatch.setattr(process_launcher, "STOP_S", 0.5)
    async with ProcessLauncher().start(python(DEAF)) as server:
        await anyio.sleep(0.3)
        pid = server.pid
    assert gone(pid)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys; print('no such model', file=sys.stderr); sys.exit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "signal SIGILL"),
    ],
)
async def test_a_server_that_ends_says_how(code, says):
    async with ProcessLauncher().start(python(code)) as server:
        with anyio.fail_after(10):
            while server.exit_text is None:
                await anyio.sleep(0.05)
        assert says in server.exit_text
        assert ("no such model" in server.exit_text) == ("exit code" in says)


async def test_a_program_that_is_not_there_is_named():
    with pytest.raises(LaunchError, match=r"/no/such/program: No such file"):
        async with ProcessLauncher().start(lambda _port: ["/no/such/program"]):
            pass


async def test_each_start_has_a_port_of_its_own():
    seen = []

    def command(port):
        seen.append(port)
        return ["sleep", "60"]

    launcher = ProcessLauncher()
    async with launcher.start(command) as one, launcher.start(command) as two:
        assert [one.port, two.port] == seen
    assert seen[0] != seen[1]
