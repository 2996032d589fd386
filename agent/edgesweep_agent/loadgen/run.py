"""One level carried out: warm-up, then its tracks, each exchange handed over as it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from edgesweep_agent.core.precision import settled

from .crew import Crew
from .frames import COUNTS, CUT, ENDED, EXCHANGE, Ended, frame
from .job import Counts, LevelJob
from .pool import Pool
from .pulse import Pulse
from .sender import Sender
from .tracks import TrackRun
from .warmup import WarmedUp, WarmUp

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from edgesweep_agent.core.exchange import Exchange
    from edgesweep_agent.core.precision import Completion

    from .selector import ReadingSelector

_HTTP_OK = 200
PRECISION = "precision"
SILENT = "silent"
_SILENT_REQUESTS = 2
"""In a row, and no fewer than are sent at once: each further one would wait as long for nothing."""


class LevelRun:
    """Carries out one job, writing frames as it goes.

    Args:
        job: The level.
        emit: Takes each frame; must not block.
        selector: That of the running loop, if it can read connections itself.
        hurry: Asks for a processor before others; whether it was given.
    """

    def __init__(
        self,
        job: LevelJob,
        emit: Callable[[bytes], object],
        selector: ReadingSelector | None = None,
        hurry: Callable[[], bool] = lambda: False,
    ) -> None:
        self._job = job
        self._emit = emit
        self._selector = selector
        self._hurry = hurry
        self._realtime = False
        self._pool = Pool(job, selector)
        self._sender = Sender(job, self._pool, self._report)
        self._phase: asyncio.Future[None] | None = None
        self._warmed_up = WarmedUp()
        self._stopped = ""
        self._measuring = False
        self._done = 0
        self._total = 0
        self._failed_by: Counter[str] = Counter()
        self._completions: list[Completion] = []
        self._silent = 0
        self._silent_from = max(
            _SILENT_REQUESTS, job.warmup_burst, *(track.concurrency for track in job.tracks)
        )

    def stop(self, why: str) -> None:
        """Starts no further request and cancels the running ones."""
        self._stopped = self._stopped or why
        if self._phase is not None:
            self._phase.cancel()

    async def run(self) -> None:
        """Warms up, drains, measures; the last frame says how it went, and at what priority."""
        if self._job.deadline_s is not None:
            asyncio.get_running_loop().call_later(self._job.deadline_s, self.stop, "deadline")
        pulse = Pulse(self._beat, self._go_first)
        await self._run_phase(self._warm_up(), len(self._job.warmup_bodies), measuring=False)
        n_warmup, warmup_failed_by = self._done, dict(self._failed_by)
        pulse.reset()
        total = sum(track.size for track in self._job.tracks)
        await self._run_phase(self._measure(), total, measuring=True)
        pulse.stop()
        await self._pool.close()
        self._report_counts()
        ended = Ended(
            stopped=self._stopped,
            n_warmup=n_warmup,
            warmup_failed_by=warmup_failed_by,
            warmup_burst_s=list(self._warmed_up.burst_s),
            warmup_agreed=self._warmed_up.agreed,
            cpu_s=pulse.cpu_s,
            lag_max_s=pulse.lag_max_s,
            lag_p99_s=pulse.lag_p99_s,
            realtime=self._realtime,
        )
        self._emit(frame(ENDED, ended))

    async def _run_phase(
        self, phase: Coroutine[object, object, None], total: int, *, measuring: bool
    ) -> None:
        self._measuring, self._done, self._total = measuring, 0, total
        self._failed_by.clear()
        if self._stopped:
            phase.close()
            return
        self._phase = asyncio.ensure_future(phase)
        await asyncio.wait({self._phase})
        if not self._phase.cancelled():
            self._phase.result()

    async def _warm_up(self) -> None:
        self._warmed_up = await WarmUp(self._job, self._sender, _failure).run()

    async def _measure(self) -> None:
        timed = any(track.timed for track in self._job.tracks)
        if self._selector is not None:
            self._selector.exact_timers = timed
        if timed:
            self._go_first()
        tracks: dict[str, TrackRun] = {}
        first_index = 0
        for number, track in enumerate(self._job.tracks):
            tracks[track.name] = TrackRun(
                track,
                number=number,
                first_index=first_index,
                sender=self._sender,
                halted=lambda: bool(self._stopped),
            )
            first_index += track.size
        async with Crew() as crew:
            for track_run in tracks.values():
                track_run.link(tracks)
                crew.start(track_run.run())

    def _report(self, exchange: Exchange) -> None:
        self._done += 1
        failure = _failure(exchange)
        if failure:
            self._failed_by[failure] += 1
        self._hear(exchange)
        if self._measuring:
            self._emit(frame(EXCHANGE, exchange))
            self._judge(exchange, failed=bool(failure))
        elif exchange.ending == "cancelled":
            self._emit(frame(CUT, exchange))

    def _hear(self, exchange: Exchange) -> None:
        """Starts no more once waves of requests time out with no more than a role chunk."""
        in_vain = exchange.ending == "timeout" and len(exchange.pieces) < 2
        self._silent = self._silent + 1 if in_vain else 0
        if self._silent >= self._silent_from:
            self._stopped = self._stopped or SILENT

    def _judge(self, exchange: Exchange, *, failed: bool) -> None:
        """Ends the level once its throughput is known well enough; what runs is measured still."""
        precision = self._job.precision
        if precision is None or self._stopped:
            return
        weight = 0.0 if failed else precision.weights[exchange.index]
        self._completions.append((exchange.t_end_ns, weight))
        concurrency = self._job.tracks[0].concurrency
        # After whole waves only, in which answers of one length end.
        if len(self._completions) % concurrency == 0 and settled(
            self._completions,
            concurrency,
            half_width=precision.half_width,
            floor=precision.floor,
        ):
            self._stopped = PRECISION

    def _go_first(self) -> None:
        """Beside an engine that keeps every core busy, or with requests that are due at times.

        Not otherwise: where a core is free, being woken before all others costs twice as much.
        """
        self._realtime = self._realtime or self._hurry()

    def _beat(self) -> None:
        self._pool.parse()
        self._report_counts()

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
