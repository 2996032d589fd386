"""What a launcher offers: a server comes up, can be watched, and goes away for certain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager


class Server(Protocol):
    """A server that was started; it may still be loading."""

    port: int

    @property
    def exit_text(self) -> str | None:
        """How it ended and the last lines it wrote, or ``None`` while it runs."""


class Launcher(Protocol):
    """A way to start servers."""

    def start(self, command: Callable[[int], list[str]]) -> AbstractAsyncContextManager[Server]:
        """Start what ``command`` gives for a port; it is gone when the context is left.

        Raises:
            LaunchError: it could not even be started.
        """
