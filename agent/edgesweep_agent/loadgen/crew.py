"""Tasks that are done when all of them are, and never outlive whoever waits for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from typing_extensions import Self


class Crew:
    """An asynchronous context whose end waits for the tasks started in it.

    Cancelled, it cancels them and waits for what they still report. When one fails, the others
    are cancelled, and its exception is raised: that is a fault of the program, since a failed
    request is a value. (anyio's task group would cost the process a tenth of its memory.)
    """

    def __init__(self) -> None:
        self._tasks: list[asyncio.Future[object]] = []

    def start(self, work: Coroutine[object, object, object]) -> None:
        """Starts a task."""
        self._tasks.append(asyncio.ensure_future(work))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._tasks:
            return
        try:
            if error is None:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.result()
