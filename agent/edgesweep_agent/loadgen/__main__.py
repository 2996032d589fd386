"""``python -m edgesweep_agent.loadgen``: one job from standard input, frames to standard output.

Standard input stays open as a lifeline: when it closes, the level stops, what it has is written
out, and the process ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import signal
import sys
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from .frames import JOB, FrameReader
from .job import LevelJob
from .priority import take_priority
from .run import LevelRun
from .selector import ReadingSelector

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


class _Lifeline(asyncio.Protocol):
    """The parent's end of standard input; nothing more is read from it."""

    def __init__(self, on_closed: Callable[[], object]) -> None:
        self._on_closed = on_closed

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._on_closed()


class _Output(asyncio.BaseProtocol):
    """Standard output; ``closed`` is resolved once all is written."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if not self.closed.done():
            self.closed.set_result(None)


def main() -> int:
    """Runs one level; 0 also when it was stopped."""
    _die_with_parent()
    # Ctrl-C reaches the whole process group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    packed = _read_job(sys.stdin.buffer)
    if packed is None:
        return 0
    job = msgspec.msgpack.decode(packed, type=LevelJob)
    selector = ReadingSelector()
    loop = asyncio.SelectorEventLoop(selector)
    try:
        loop.run_until_complete(_run(job, selector))
    finally:
        loop.close()
    return 0


async def _run(job: LevelJob, selector: ReadingSelector) -> None:
    loop = asyncio.get_running_loop()
    transport, output = await loop.connect_write_pipe(_Output, sys.stdout.buffer)
    run = LevelRun(job, transport.write, selector, take_priority)
    await loop.connect_read_pipe(lambda: _Lifeline(lambda: run.stop("asked")), sys.stdin.buffer)
    loop.add_signal_handler(signal.SIGTERM, run.stop, "asked")
    # A collection stops the loop for milliseconds, in the middle of somebody's first token.
    gc.collect()
    gc.freeze()
    gc.disable()
    await run.run()
    transport.close()
    await output.closed


def _read_job(stream: BinaryIO) -> bytes | None:
    """The job frame; ``None`` if the parent went away first."""
    reader = FrameReader()
    while data := stream.raw.read(65536):  # type: ignore[attr-defined]
        for kind, body in reader.feed(data):
            if kind == JOB:
                return body
    return None


def _die_with_parent() -> None:
    """Asks the kernel to kill this process with its parent: no load without a measurer."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
