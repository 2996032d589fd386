"""The closed loop: C workers, each with one request in flight."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

from edgesweep_agent.core.exchange import Ending, Exchange

from .connector import Connector
from .frames import COUNTS, ENDED, EXCHANGE, Ended, frame
from .job import Counts, LevelJob
from .protocol import Connection, Flight
from .pulse import Pulse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HTTP_OK = 200


class LevelRun:
    """Carries out one job, writing frames as it goes.

    Args:
        job: The level.
        emit: Takes each frame; must not block.
    """

    def __init__(self, job: LevelJob, emit: Callable[[bytes], object]) -> None:
        self._job = job
        self._emit = emit
        self._connector = Connector(job)
        self._workers: list[asyncio.Task[None]] = []
        self._stopped = ""
        self._measuring = False
        self._done = 0
        self._total = 0
        self._failed_by: Counter[str] = Counter()

    def stop(self, why: str) -> None:
        """Starts no further request and cancels the running ones."""
        self._stopped = self._stopped or why
        for worker in self._workers:
            worker.cancel()

    async def run(self, *, realtime: bool = False) -> None:
        """Warms up, drains, measures; the last frame says how it went, and at what priority."""
        if self._job.deadline_s is not None:
            asyncio.get_running_loop().call_later(self._job.deadline_s, self.stop, "deadline")
        pulse = Pulse(self._report_counts)
        await self._run_phase(self._job.warmup_bodies, measuring=False)
        n_warmup, warmup_failed_by = self._done, dict(self._failed_by)
        pulse.reset()
        await self._run_phase(self._job.bodies, measuring=True)
        pulse.stop()
        self._report_counts()
        ended = Ended(
            stopped=self._stopped,
            n_warmup=n_warmup,
            warmup_failed_by=warmup_failed_by,
            cpu_s=pulse.cpu_s,
            lag_max_s=pulse.lag_max_s,
            realtime=realtime,
        )
        self._emit(frame(ENDED, ended))

    async def _run_phase(self, bodies: list[bytes], *, measuring: bool) -> None:
        self._measuring, self._done, self._total = measuring, 0, len(bodies)
        self._failed_by.clear()
        if self._stopped or not bodies:
            return
        requests = iter(enumerate(bodies))
        t_begin_ns = time.monotonic_ns()
        self._workers = [
            asyncio.ensure_future(self._work(requests, t_begin_ns))
            for _ in range(min(self._job.concurrency, len(bodies)))
        ]
        finished, _ = await asyncio.wait(self._workers, return_when=asyncio.FIRST_EXCEPTION)
        for worker in finished:
            if not worker.cancelled():
                worker.result()

    async def _work(self, requests: Iterator[tuple[int, bytes]], t_free_ns: int) -> None:
        """One worker: its next request is due the moment its last has ended."""
        connection: Connection | None = None
        try:
            for index, body in requests:
                connection = connection or await self._connect(index, t_free_ns)
                if self._stopped:
                    break
                if connection and not await self._fly(connection, index, body, t_free_ns):
                    await connection.close()
                    connection = None
                t_free_ns = time.monotonic_ns()
        finally:
            if connection is not None:
                await connection.close()

    async def _connect(self, index: int, t_sched_ns: int) -> Connection | None:
        """A connection for the next request; without one, that request has failed."""
        try:
            return await self._connector.connect()
        except (asyncio.TimeoutError, TimeoutError):
            error = f"no connection within {self._job.request_timeout_s:g} s"
            self._report(_unsent(index, t_sched_ns, "timeout", error))
        except OSError as refusal:
            self._report(_unsent(index, t_sched_ns, "refused", str(refusal)))
        return None

    async def _fly(self, connection: Connection, index: int, body: bytes, t_sched_ns: int) -> bool:
        """One exchange; whether the connection may carry another."""
        flight = Flight(index, t_sched_ns)
        try:
            await connection.perform(flight, self._job.request(body), self._job)
        finally:
            self._report(flight.exchange())
        return self._job.keep_alive and flight.reusable and connection.usable

    def _report(self, exchange: Exchange) -> None:
        self._done += 1
        if failure := _failure(exchange):
            self._failed_by[failure] += 1
        if self._measuring:
            self._emit(frame(EXCHANGE, exchange))

    def _report_counts(self) -> None:
        failed = sum(self._failed_by.values())
        counts = Counts(self._measuring, self._done - failed, failed, self._total)
        self._emit(frame(COUNTS, counts))


def _failure(exchange: Exchange) -> str:
    """Why an exchange failed as far as HTTP tells; streams are read when the level is over."""
    if exchange.status is not None and exchange.status != _HTTP_OK:
        return f"http_{exchange.status}"
    if exchange.status is None or exchange.ending not in ("complete", "eof"):
        return exchange.ending
    return ""


def _unsent(index: int, t_sched_ns: int, ending: Ending, error: str) -> Exchange:
    now_ns = time.monotonic_ns()
    return Exchange(index, t_sched_ns, None, None, None, (), (), now_ns, ending, error)
