"""A server as a child process in a group of its own, started by exec."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from edgesweep_agent.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anyio.abc import Process

STOP_S = 10.0
"""How long a server may take to end before its group is killed."""
_LOG_TAIL_BYTES = 2000


class ServerProcess:
    """The running child and what it writes."""

    def __init__(self, process: Process, port: int, log: Path) -> None:
        self.port = port
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """The process, which is also its group."""
        return self._process.pid

    @property
    def exit_text(self) -> str | None:
        """How it ended, with the end of its log; ``None`` while it runs."""
        code = self._process.returncode
        if code is None:
            return None
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"{how}; its last words: {self._tail() or '(none)'}"

    async def stop(self) -> None:
        """End the whole group: asked first, then made to."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, sign)
            with anyio.move_on_after(STOP_S):
                await self._process.wait()
            if not _group_lives(self.pid):
                return

    def _tail(self) -> str:
        lines = self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").splitlines()
        words = [line.strip() for line in lines if line.strip(" ^~")]
        return " | ".join(words[-2:])


class ProcessLauncher:
    """Starts servers as children; none survives this process's orderly end."""

    name = "process"

    @asynccontextmanager
    async def start(self, command: Callable[[int], list[str]]) -> AsyncIterator[ServerProcess]:
        """Start the command on a free loopback port.

        Raises:
            LaunchError: the program is not there.
        """
        port = _free_port()
        argv = command(port)
        with tempfile.TemporaryDirectory(prefix="edgesweep-") as folder:
            log = Path(folder) / "server.log"
            server = ServerProcess(await _spawn(argv, log), port, log)
            try:
                yield server
            finally:
                with anyio.CancelScope(shield=True):
                    await server.stop()


async def _spawn(argv: list[str], log: Path) -> Process:
    with log.open("ab") as sink:
        try:
            return await anyio.open_process(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(f"{argv[0]}: {error.strerror}") from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
