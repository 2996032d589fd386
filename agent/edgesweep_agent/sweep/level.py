"""One level: requests made, sent by the load generator's process, and summed up."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from edgesweep.records import LevelResult, LevelStatus
from edgesweep_agent.attach import CHAT_PATH
from edgesweep_agent.core.durations import seconds
from edgesweep_agent.core.stream import to_sample
from edgesweep_agent.core.summary import summarise
from edgesweep_agent.loadgen.client import DIED, LoadGeneratorError, run_level
from edgesweep_agent.loadgen.job import LevelJob

from .recorder import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    import anyio

    from edgesweep.records import Contender, Device, Sample, Workload
    from edgesweep_agent.loadgen.client import LevelOutcome
    from edgesweep_agent.loadgen.job import Counts
    from edgesweep_agent.plan import SweepPlan

    from .contender import Ready


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LevelSpec:
    """What to measure and where it belongs."""

    run_id: str
    device: Device
    session: int
    workload: Workload
    concurrency: int
    requests: int
    started_wall_ns: int
    started_mono_ns: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A level's result with its samples, and whether it was cut off before its end."""

    level: LevelResult
    samples: tuple[Sample, ...]
    cut: bool


async def measure(
    spec: LevelSpec,
    ready: Ready,
    plan: SweepPlan,
    *,
    left_s: float | None,
    stop: anyio.Event,
    keep_text: bool,
    on_progress: Callable[[Progress], None],
) -> Measured:
    """Measure one level.

    Args:
        spec: What to measure.
        ready: The contender.
        plan: For its time limits.
        left_s: What is left of the time budget; running requests are cancelled at its end.
        stop: Set by whoever wants the sweep to end; what was measured is kept.
        keep_text: Keep the answers' text in the samples.
        on_progress: Told as requests end.
    """
    job = _job(spec, ready, plan, left_s)
    name = ready.contender.name

    def moved(counts: Counts) -> None:
        text = "measuring" if counts.measuring else "warming up"
        done = counts.done + counts.failed
        on_progress(Progress(name, text, spec.concurrency, done, spec.requests))

    try:
        outcome = await run_level(job, on_progress=moved, stop=stop)
    except LoadGeneratorError as error:
        _log.error("%s", error)
        outcome = error.outcome
    samples = tuple(
        to_sample(exchange, concurrency=spec.concurrency, keep_text=keep_text)
        for exchange in outcome.exchanges
        if exchange.ending != "cancelled"
    )
    cut = len(samples) < spec.requests
    return Measured(_result(spec, ready, samples, outcome, cut=cut), samples, cut)


def _job(spec: LevelSpec, ready: Ready, plan: SweepPlan, left_s: float | None) -> LevelJob:
    target = ready.target
    address = urlsplit(target.url)
    seed = f"{spec.run_id}/{spec.session}/{spec.concurrency}"

    def bodies(phase: str, count: int) -> list[bytes]:
        return [
            target.body(
                target.prompt(f"{seed}/{phase}", index, spec.workload.prompt_tokens),
                spec.workload.output_tokens,
            )
            for index in range(count)
        ]

    return LevelJob(
        scheme="https" if address.scheme == "https" else "http",
        host=address.hostname or "",
        port=address.port or (443 if address.scheme == "https" else 80),
        path=address.path + CHAT_PATH,
        headers=target.headers(),
        warmup_bodies=bodies("warm-up", spec.concurrency),
        bodies=bodies("measured", spec.requests),
        concurrency=spec.concurrency,
        request_timeout_s=seconds(plan.request_timeout),
        idle_timeout_s=seconds(plan.request_timeout),
        deadline_s=left_s,
    )


def _result(
    spec: LevelSpec,
    ready: Ready,
    samples: tuple[Sample, ...],
    outcome: LevelOutcome,
    *,
    cut: bool,
) -> LevelResult:
    summary = summarise(
        samples,
        spec.concurrency,
        asked_output_tokens=[spec.workload.output_tokens] * spec.requests,
        interrupted=cut,
    )
    level = bare(spec, ready.contender, LevelStatus.VALID, "")
    level = replace(
        level,
        status=summary.status,
        reason=summary.reason,
        flags=summary.flags,
        n_ok=summary.n_ok,
        n_failed=summary.n_failed,
        failed_by=summary.failed_by,
        values={**summary.values, **_client(outcome)},
        distributions=summary.distributions,
        block_output_tokens_per_s=summary.block_output_tokens_per_s,
    )
    died = ready.died()
    if died is not None:
        return replace(level, status=LevelStatus.FAILED, reason="engine_exited")
    if outcome.stopped_by == DIED:
        return replace(level, status=LevelStatus.FAILED, reason="client_died")
    if outcome.stopped_by == "deadline":
        return replace(level, status=LevelStatus.SKIPPED, reason="time_budget")
    return level


def _client(outcome: LevelOutcome) -> dict[str, float]:
    """What measuring cost, beside what it measured: the client shares the engine's cores."""
    told = {
        "client_cpu_s": outcome.client_cpu_s,
        "client_lag_max_s": outcome.client_lag_max_s,
    }
    return {name: value for name, value in told.items() if value is not None}


def bare(spec: LevelSpec, contender: Contender, status: LevelStatus, reason: str) -> LevelResult:
    """A level without figures: one that was not measured, and why."""
    return LevelResult(
        run_id=spec.run_id,
        device=spec.device,
        contender=contender,
        session=spec.session,
        workload=spec.workload,
        concurrency=spec.concurrency,
        status=status,
        reason=reason,
        started_wall_ns=spec.started_wall_ns,
        started_mono_ns=spec.started_mono_ns,
    )
