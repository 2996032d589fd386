"""A server as a child process in a group of its own, held with all that it starts."""

from __future__ import annotations

import socket
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from edgesweep_agent.errors import SettingsError

from . import child, memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from edgesweep_agent.core.command import Command
    from edgesweep_agent.core.memory_return import MemoryReturn
    from edgesweep_agent.core.processes import Identity
    from edgesweep_agent.core.startfacts import Exit
    from edgesweep_agent.plan import ManagedSpec

    from .child import Child

STOP_S = 10.0
"""How long a server may take to end before its group is killed."""
LOOPBACK = "127.0.0.1"


class ServerProcess:
    """The running server."""

    build = ""

    def __init__(self, running: Child, port: int) -> None:
        self.port = port
        self.memory: MemoryReturn | None = None
        self._child = running

    @property
    def exit(self) -> Exit | None:
        """How it ended, or ``None`` while it runs."""
        return self._child.exit

    @property
    def exit_text(self) -> str | None:
        """How it ended, with the end of its log; ``None`` while it runs."""
        return self._child.exit_text

    @property
    def log_bytes(self) -> int:
        """How much it has written."""
        return self._child.log_bytes

    def pids(self) -> frozenset[Identity]:
        """Its group, and descendants that have left it."""
        return self._child.pids()

    def log_text(self, since: int = 0) -> str:
        """What it wrote from an offset on."""
        return self._child.log_text(since)


class ProcessPlace:
    """On this machine, as a child of the agent."""

    host = LOOPBACK

    def __init__(self, spec: ManagedSpec, *, stop_s: float, return_s: float) -> None:
        self.spec = spec
        self.settings: Mapping[str, str] = {}
        self._stop_s = stop_s
        self._return_s = return_s

    async def ask(self, command: Command) -> str:
        """Run a command to its end and take what it wrote."""
        return await child.ask(command.argv, command.environment)

    @asynccontextmanager
    async def start(
        self, command: Callable[[int], Command], *, log: Path | None = None
    ) -> AsyncIterator[ServerProcess]:
        """Start the command on a free loopback port.

        Raises:
            LaunchError: the program is not there.
        """
        port = free_port()
        wanted = command(port)
        before = memory.free_now()
        with log_file(log) as kept:
            running = await child.spawn(wanted.argv, wanted.environment, kept, whole=True)
            server = ServerProcess(running, port)
            try:
                yield server
            finally:
                with anyio.CancelScope(shield=True):
                    await running.stop(stop_s=self._stop_s)
                    server.memory = await memory.came_back(before, wait_s=self._return_s)


class ProcessLauncher:
    """Starts servers as children; none survives the agent.

    Args:
        stop_s: How long a server may take to end before its group is killed.
        return_s: How long its memory may take to come back.
    """

    name = "process"

    def __init__(self, *, stop_s: float = STOP_S, return_s: float = memory.WAIT_S) -> None:
        self._stop_s = stop_s
        self._return_s = return_s

    def place(self, spec: ManagedSpec) -> ProcessPlace:
        """On this machine.

        Raises:
            SettingsError: the plan names a container's command.
        """
        if spec.runtime is not None:
            raise SettingsError('runtime belongs to launcher "container": leave it out')
        return ProcessPlace(spec, stop_s=self._stop_s, return_s=self._return_s)


@contextmanager
def log_file(kept: Path | None) -> Iterator[Path]:
    """Where a server writes: a file that is kept, or one that goes with the server."""
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="edgesweep-") as folder:
        yield Path(folder) / "server.log"


def free_port() -> int:
    """A loopback port that is free now; the server may still find it taken."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
