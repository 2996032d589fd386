"""The parent's side: starts the load generator, keeps what it says, decodes it when it is over."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import msgspec

from edgesweep_agent.core.exchange import Exchange
from edgesweep_agent.errors import ProgramError

from .frames import COUNTS, CUT, ENDED, EXCHANGE, JOB, Ended, FrameReader, frame
from .job import Counts, LevelJob

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anyio.abc import Process

_COMMAND = (sys.executable, "-m", "edgesweep_agent.loadgen")
ASKED = "asked"
DIED = "died"
GRACE_S = 0.7
"""For a load generator asked to stop, to hand over what it has."""
_EXIT_S = 0.2
_STDERR_KEPT = 4096
_READ_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class LevelOutcome:
    """What a level left behind.

    Attributes:
        exchanges: The measured ones, by index; some are missing if the level ended early.
        stopped_by: Why it did: ``deadline``, ``asked`` (the caller, or a signal), ``precision``
            (its throughput is known well enough), ``silent`` (waves of requests timed out without
            a token), or "".
        n_warmup: Warm-up requests that ended, however they did.
        warmup_cut: Those of them that were under way when the level was stopped.
        warmup_failed_by: Those of them that failed, by ``http_<status>`` or ending.
        warmup_burst_s: Makespan of each whole warm-up burst, in order.
        warmup_agreed: The last two of them took equally long.
        client_cpu_s: The load generator's processor time while it measured, if it could say.
        client_lag_max_s, client_lag_p99_s: How late its timers were meanwhile, likewise.
        client_realtime: It had a real-time priority; without, a busy engine delays its clock.
    """

    # Whoever ends an event loop on it has its result written out: signal.signal() tries to make an
    # enum of the old handler, which holds the main task, and the error has all of it in its text.
    exchanges: tuple[Exchange, ...] = field(repr=False)
    stopped_by: str = ""
    n_warmup: int = 0
    warmup_cut: tuple[Exchange, ...] = field(default=(), repr=False)
    warmup_failed_by: Mapping[str, int] = field(default_factory=dict)
    warmup_burst_s: tuple[float, ...] = ()
    warmup_agreed: bool = False
    client_cpu_s: float | None = None
    client_lag_max_s: float | None = None
    client_lag_p99_s: float | None = None
    client_realtime: bool | None = None

    @property
    def interrupted(self) -> bool:
        """Somebody wanted it to end; what had finished is here."""
        return self.stopped_by == ASKED


class LoadGeneratorError(ProgramError):
    """The load generator died; ``outcome`` holds what it had handed over."""

    def __init__(self, message: str, outcome: LevelOutcome) -> None:
        super().__init__(message)
        self.outcome = outcome


async def run_level(
    job: LevelJob,
    *,
    on_progress: Callable[[Counts], object] | None = None,
    stop: anyio.Event | None = None,
) -> LevelOutcome:
    """Runs one level in a process of its own.

    When ``stop`` is set, or the call is cancelled, the load generator ends within a second and
    what had finished is *returned*, as ``interrupted``: results are kept. An outer cancellation
    comes back at the caller's next await.

    Args:
        job: The level.
        on_progress: Told five times a second how far it is.
        stop: Ends the level.

    Raises:
        LoadGeneratorError: The load generator died of something else.
    """
    gathered = _Gathered(on_progress)
    process = await anyio.open_process(_COMMAND, env=_environment())
    asked = False
    try:
        await gathered.follow(process, job, stop or anyio.Event())
    except anyio.get_cancelled_exc_class():
        asked = True
        with anyio.CancelScope(shield=True):
            await gathered.rest(process)
    finally:
        with anyio.CancelScope(shield=True):
            await _put_down(process)
    asked = asked or (stop is not None and stop.is_set())
    return gathered.outcome(process, asked=asked)


def _environment() -> dict[str, str]:
    """The child imports what this process would, and nothing from the working directory."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


async def _put_down(process: Process) -> None:
    """Waits a moment for its status; one that hangs on is killed."""
    with anyio.move_on_after(_EXIT_S):
        await process.wait()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.aclose()


async def _send(process: Process, data: bytes) -> None:
    """If it dies before it has read all, its standard error says why."""
    if process.stdin is not None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.send(data)


async def _close_stdin(process: Process) -> None:
    if process.stdin is not None:
        await process.stdin.aclose()


class _Gathered:
    """All that came from one load generator. Exchanges stay packed while the level runs."""

    def __init__(self, on_progress: Callable[[Counts], object] | None) -> None:
        self._ended: Ended | None = None
        self._on_progress = on_progress
        self._frames = FrameReader()
        self._exchanges: list[bytes] = []
        self._cut: list[bytes] = []
        self._stderr = b""

    async def follow(self, process: Process, job: LevelJob, stop: anyio.Event) -> None:
        """Hands over the job and reads until the load generator closes its output."""
        async with anyio.create_task_group() as watch:
            watch.start_soon(self._stop_when, stop, process, watch.cancel_scope)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_stderr, process)
                tasks.start_soon(self._read, process)
                await _send(process, frame(JOB, job))
            watch.cancel_scope.cancel()

    async def rest(self, process: Process) -> None:
        """Asks it to stop by closing its lifeline, and reads what it still has to say."""
        with anyio.move_on_after(GRACE_S):
            await _close_stdin(process)
            await self._read(process)

    def outcome(self, process: Process, *, asked: bool) -> LevelOutcome:
        """Decodes what was kept.

        Raises:
            LoadGeneratorError: It died unasked.
        """
        decode = msgspec.msgpack.Decoder(Exchange).decode
        exchanges = tuple(sorted(map(decode, self._exchanges), key=lambda one: one.index))
        if (ended := self._ended) is not None:
            return LevelOutcome(
                exchanges=exchanges,
                stopped_by=ended.stopped or (ASKED if asked else ""),
                n_warmup=ended.n_warmup,
                warmup_cut=tuple(map(decode, self._cut)),
                warmup_failed_by=ended.warmup_failed_by,
                warmup_burst_s=tuple(ended.warmup_burst_s),
                warmup_agreed=ended.warmup_agreed,
                client_cpu_s=ended.cpu_s,
                client_lag_max_s=ended.lag_max_s,
                client_lag_p99_s=ended.lag_p99_s,
                client_realtime=ended.realtime,
            )
        if asked:
            return LevelOutcome(exchanges, ASKED)
        said = self._stderr.decode("utf-8", "replace").strip()
        raise LoadGeneratorError(
            f"the load generator died with status {process.returncode}: {said or 'no word'}",
            LevelOutcome(exchanges, DIED),
        )

    async def _stop_when(
        self, stop: anyio.Event, process: Process, scope: anyio.CancelScope
    ) -> None:
        """When told to, closes the lifeline; a load generator that ignores it is left behind."""
        await stop.wait()
        await _close_stdin(process)
        await anyio.sleep(GRACE_S)
        scope.cancel()

    async def _read(self, process: Process) -> None:
        if process.stdout is None:
            return
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                for kind, body in self._frames.feed(await process.stdout.receive(_READ_BYTES)):
                    self._take(kind, body)

    def _take(self, kind: bytes, body: bytes) -> None:
        if kind == EXCHANGE:
            self._exchanges.append(body)
        elif kind == CUT:
            self._cut.append(body)
        elif kind == COUNTS and self._on_progress is not None:
            self._on_progress(msgspec.msgpack.decode(body, type=Counts))
        elif kind == ENDED:
            self._ended = msgspec.msgpack.decode(body, type=Ended)

    async def _read_stderr(self, process: Process) -> None:
        if process.stderr is None:
            return
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                read = await process.stderr.receive(_STDERR_KEPT)
                self._stderr = (self._stderr + read)[-_STDERR_KEPT:]
