"""One level: sent by the load generator's process while device and engine are watched."""

from __future__ import annotations

import logging
import os
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from edgesweep_agent import questions
from edgesweep_agent.attach import scrape
from edgesweep_agent.core import gpu_memory
from edgesweep_agent.core.budget import LevelCost, remaining_s
from edgesweep_agent.core.pace import pace_of, share_done
from edgesweep_agent.core.pressure import Limits
from edgesweep_agent.core.stream import to_sample
from edgesweep_agent.guard import guard
from edgesweep_agent.loadgen.client import LoadGeneratorError, run_level
from edgesweep_agent.sensors.files import Files
from edgesweep_agent.turn import PARENT
from edgesweep_agent.watch.watch import Watch, Watched

from .arrange import arrange
from .ledger import Place
from .recorder import Progress
from .result import Seen, result
from .sameness import what_changed
from .task import Measured

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from edgesweep.records import Sample
    from edgesweep_agent.core.counters import Counters
    from edgesweep_agent.guard import Watch as GuardWatch
    from edgesweep_agent.loadgen.client import LevelOutcome
    from edgesweep_agent.loadgen.job import Counts

    from .arrange import Arranged
    from .task import Task


_log = logging.getLogger(__name__)

MOST_WARMUP_BURSTS = 6
_JUDGED_FROM = 3
"""Ended requests from which the rest of a level is reckoned."""
_SAMPLER_EDGE_S = 0.15
"""Energy is interpolated at a window's edges, and needs a reading beyond each."""


@dataclass(frozen=True, slots=True)
class Watching:
    """Both watchers of one level."""

    watch: Watch
    guard: GuardWatch


async def measure(task: Task) -> Measured:
    """Measure one level: warm-up, then its requests; what was measured is kept if it is stopped."""
    plan = task.ledger.plan
    arranged = await arrange(
        task,
        requests=plan.requests_at(task.concurrency, task.shape),
        most=plan.most_requests_at(task.concurrency, task.shape),
        warmup=MOST_WARMUP_BURSTS,
        phase="measured",
    )
    return await _carry_out(task, arranged)


async def scout(task: Task) -> Measured:
    """One burst, to see whether the level can be had at all."""
    c = task.concurrency
    return await _carry_out(task, await arrange(task, requests=c, most=c, warmup=0, phase="scout"))


async def _carry_out(task: Task, arranged: Arranged) -> Measured:
    began = time.monotonic()
    place = Place(task.ready.contender, task.session, task.shape.workload(), task.concurrency)
    level = task.ledger.begin(place, _attributes(task, arranged))
    changed = await what_changed(task.ready, task.box)
    async with _watched(task) as watching:
        outcome = await _load(task, arranged, watching.watch)
    samples = _samples(task, arranged, outcome)
    evidence = watching.watch.seen()
    if changed and not evidence.engine.restarted:
        evidence = replace(evidence, engine=replace(evidence.engine, restarted=changed))
    seen = Seen(outcome, evidence, watching.guard.report())
    level = result(level, task, arranged, samples, seen)
    if not task.keep_text:
        samples = tuple(replace(sample, text="") for sample in samples)
    cut = _cut_samples(outcome, task.concurrency)
    warmed_up = outcome.n_warmup - len(outcome.warmup_cut)
    done = sum(share_done(one, task.shape.output_tokens) for one in cut)
    return Measured(
        level,
        samples,
        requests=len(samples) + warmed_up + done,
        seconds=time.monotonic() - began,
        warmed_up=warmed_up,
        pace=pace_of([*(one for one in samples if one.ok), *cut]) if cut else None,
    )


@asynccontextmanager
async def _watched(task: Task) -> AsyncIterator[Watching]:
    """The level under both watchers, with the fast sensors read."""
    ready, box = task.ready, task.box
    pids = ready.pids()
    limits = Limits(reserve_bytes=task.ledger.plan.reserve_bytes, mapped_bytes=ready.mapped_bytes)
    async with questions.client(ready.target.url, ready.target.api_key) as client:
        closed: set[str] = set()

        async def asked() -> Counters | None:
            return await scrape(ready.target, client, closed)

        watched = Watched(
            engine=ready.pids,
            scrape=asked if len(ready.targets) == 1 else None,
            sensors=box.sensors,
            caps=box.caps,
            log=ready.log,
            own_pids=frozenset({os.getpid(), *_daemon()}),
        )
        async with (
            guard(limits, sorted(pids or ()), ready.kill, root=box.root) as guarding,
            Watch(watched, files=Files(box.root)) as watch,
        ):
            if box.sampler is not None:
                box.sampler.fast(True)
            yield Watching(watch, guarding)
            if box.sampler is not None:
                await anyio.sleep(_SAMPLER_EDGE_S)
                box.sampler.fast(False)


def _daemon() -> list[int]:
    """The daemon that started this sweep: delivering what was measured is our own work."""
    pid = os.environ.get(PARENT)
    return [] if pid is None else [int(pid)]


async def _load(task: Task, arranged: Arranged, watch: Watch) -> LevelOutcome:
    job = arranged.job
    name, planned = task.ready.contender.name, sum(track.size for track in job.tracks)
    least = 0 if arranged.plan.open_ended else _least(arranged)
    began: float | None = None

    def moved(counts: Counts) -> None:
        nonlocal began
        if counts.measuring and began is None:
            began = time.monotonic()
            watch.begin()
        text = "measuring" if counts.measuring else "warming up"
        done = counts.done + counts.failed
        total = planned if counts.measuring else counts.total
        warning = ""
        if began is not None and done >= _JUDGED_FROM:
            so_far = LevelCost(task.concurrency, done, time.monotonic() - began)
            warning = _lacking(task, remaining_s(so_far, least))
        task.ledger.progress(Progress(name, text, task.concurrency, done, total, warning))

    try:
        return await run_level(job, on_progress=moved, stop=task.stop)
    except LoadGeneratorError as error:
        _log.error("%s", error)
        return error.outcome


def _least(arranged: Arranged) -> int:
    """Requests that it must have: with a precision to be reached, its floor."""
    precision = arranged.job.precision
    return arranged.plan.requests if precision is None else precision.floor


def _lacking(task: Task, needed_s: float | None) -> str:
    """What the budget lacks for the rest of a level, in words; "" if that fits."""
    if not needed_s or task.ledger.has_time(needed_s):
        return ""
    return task.ledger.short_of(needed_s)


def _samples(task: Task, arranged: Arranged, outcome: LevelOutcome) -> tuple[Sample, ...]:
    keep = task.keep_text or arranged.plan.needs_text
    return tuple(
        to_sample(
            exchange,
            concurrency=task.concurrency,
            part=arranged.plan.tracks[exchange.track].name,
            keep_text=keep,
        )
        for exchange in outcome.exchanges
        if exchange.ending != "cancelled"
    )


def _cut_samples(outcome: LevelOutcome, concurrency: int) -> list[Sample]:
    """What was under way when a level was stopped, warm-up or not."""
    cut = [one for one in outcome.exchanges if one.ending == "cancelled"]
    return [to_sample(one, concurrency=concurrency) for one in (*outcome.warmup_cut, *cut)]


def _attributes(task: Task, arranged: Arranged) -> dict[str, str]:
    plan, fitted = task.ledger.plan, arranged.fitted
    lengths = "exact" if fitted.calibrated else "estimated"
    if fitted.worst_tokens:
        lengths = f"within {fitted.worst_tokens} tokens"
    told = {
        "position": str(task.position),
        "seed": str(task.seed),
        "thermal": plan.thermal,
        "ambient_c": "" if plan.ambient_c is None else f"{plan.ambient_c:g}",
        "prompt_lengths": lengths if fitted.texts else "",
        "gpu_memory_before": gpu_memory.text(task.box.gpus()),
        **task.ready.attributes,
        **task.attributes,
    }
    return {name: value for name, value in told.items() if value}
