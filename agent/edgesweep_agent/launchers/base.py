"""What a launcher offers: a server comes up, can be watched, and goes away for certain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from edgesweep_agent.core.command import Command
    from edgesweep_agent.core.memory_return import MemoryReturn
    from edgesweep_agent.core.processes import Identity
    from edgesweep_agent.core.startfacts import Exit
    from edgesweep_agent.plan import ManagedSpec


class Server(Protocol):
    """A server that was started; it may still be loading.

    Attributes:
        port: Where it listens, on loopback.
        build: What it runs in, as part of the contender's build: an image's digest, or nothing.
        memory: Whether its memory came back; known once it has been stopped.
    """

    port: int
    build: str
    memory: MemoryReturn | None

    @property
    def exit(self) -> Exit | None:
        """How it ended, or ``None`` while it runs."""

    @property
    def exit_text(self) -> str | None:
        """How it ended and the last lines it wrote, or ``None`` while it runs."""

    @property
    def log_bytes(self) -> int:
        """How much it has written: where the next part of its log begins."""

    def pids(self) -> frozenset[Identity]:
        """All processes that belong to it."""

    def log_text(self, since: int = 0) -> str:
        """What it wrote, from an offset in bytes on."""


class Place(Protocol):
    """Where one contender runs.

    Attributes:
        spec: The plan as the server sees it: with paths that hold where it runs.
        host: The address to listen on there.
        settings: What of the way it runs goes into the contender's identity.
    """

    spec: ManagedSpec
    host: str
    settings: Mapping[str, str]

    async def ask(self, command: Command) -> str:
        """Run a command to its end and take what it wrote; empty if it could not be run."""

    def start(
        self, command: Callable[[int], Command], *, log: Path | None = None
    ) -> AbstractAsyncContextManager[Server]:
        """Start what ``command`` gives for a port; it is gone when the context is left.

        Args:
            command: The command for a port of the launcher's choice.
            log: Where the server's output is kept; else it goes when the context is left.

        Raises:
            LaunchError: it could not even be started.
        """


class Launcher(Protocol):
    """A way to start servers."""

    name: str

    def place(self, spec: ManagedSpec) -> Place:
        """Where a contender would run.

        Raises:
            SettingsError: the plan asks for what this way does not have.
        """
