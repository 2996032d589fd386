"""What a level sends: its prompts, cut to length by the engine's own tokenizer, as a job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio.to_thread

from edgesweep.durations import seconds
from edgesweep_agent import questions
from edgesweep_agent.attach import count_prompt_tokens
from edgesweep_agent.loadgen.job import Endpoint, LevelJob, Precision, Track, Turn
from edgesweep_agent.target import CHAT_PATH
from edgesweep_agent.workloads import registry, replay
from edgesweep_agent.workloads.base import Level
from edgesweep_agent.workloads.lengths import fit_prompts

if TYPE_CHECKING:
    from edgesweep_agent.plan import SweepPlan
    from edgesweep_agent.target import Target
    from edgesweep_agent.workloads import base
    from edgesweep_agent.workloads.base import LevelPlan
    from edgesweep_agent.workloads.draft import Draft
    from edgesweep_agent.workloads.lengths import Fitted
    from edgesweep_agent.workloads.shape import Shape

    from .task import Task


@dataclass(frozen=True, slots=True)
class Arranged:
    """A job, and what must be known to read what comes back.

    Attributes:
        fitted: How near the prompts came to their lengths.
        repeats: It asks some of the user's prompts again, which a cache may answer.
    """

    job: LevelJob
    plan: LevelPlan
    fitted: Fitted
    repeats: bool = False


async def arrange(task: Task, *, requests: int, most: int, warmup: int, phase: str) -> Arranged:
    """The job of a level.

    Args:
        task: The level.
        requests: Measured ones, at least.
        most: So many if the plan's precision is not reached before.
        warmup: Bursts sent before, at most.
        phase: Keeps its prompts apart from those of other phases of the same level.
    """
    shares = task.shape.kind in registry.SHARING
    target = replace(task.ready.target, shares=shares)
    seed = f"{task.ledger.run_id}/{task.session}/{task.concurrency}/{task.ledger.attempt}/{phase}"
    draft = await _draft(task.shape, task.concurrency, most, seed, target, warmup)
    async with questions.client(target.url, target.api_key) as client:
        fitted = await fit_prompts(
            draft.wanted, lambda texts: count_prompt_tokens(target, texts, client)
        )
    plan = draft.plan(target, fitted.texts)
    repeats = 0 < draft.distinct < plan.requests
    return Arranged(_job(task, target, plan, requests), plan, fitted, repeats)


async def longest(shape: Shape, concurrency: int, target: Target) -> tuple[int, int]:
    """Prompt and output tokens of the longest request of a level."""
    draft = await _draft(shape, concurrency, concurrency, "longest", target, 1)
    return draft.longest


async def _draft(
    shape: Shape, concurrency: int, requests: int, seed: str, target: Target, warmup: int
) -> Draft:
    file = shape.file
    replayed = () if file is None else await anyio.to_thread.run_sync(replay.read, file)
    return registry.draft(
        Level(
            shape=shape,
            concurrency=concurrency,
            requests=requests,
            seed=seed,
            overhead_tokens=target.overhead_tokens,
            warmup_bursts=warmup,
            replayed=replayed,
        )
    )


def _job(task: Task, target: Target, plan: LevelPlan, least: int) -> LevelJob:
    sweep = task.ledger.plan
    return LevelJob(
        endpoints=[_endpoint(one) for one in task.ready.targets],
        tracks=[_track(track) for track in plan.tracks],
        headers=target.headers(),
        warmup_bodies=list(plan.warmup_bodies),
        warmup_burst=plan.warmup_burst,
        precision=_precision(sweep, plan, least),
        request_timeout_s=seconds(sweep.request_timeout),
        idle_timeout_s=seconds(sweep.request_timeout),
        deadline_s=task.ledger.left_s(),
    )


def _precision(sweep: SweepPlan, plan: LevelPlan, least: int) -> Precision | None:
    """Of a closed loop alone: nothing else has a throughput that settles."""
    if sweep.precision is None or plan.window != "steady" or len(plan.tracks) != 1:
        return None
    weights = [float(asked or 1) for asked in plan.asked_output_tokens]
    return Precision(sweep.precision, least, weights) if plan.tracks[0].bodies else None


def _track(track: base.Track) -> Track:
    return Track(
        name=track.name,
        bodies=list(track.bodies),
        chains=[[Turn(list(turn.messages), turn.fields) for turn in c] for c in track.chains],
        concurrency=track.concurrency,
        arrivals_s=None if track.arrivals_s is None else list(track.arrivals_s),
        after=track.after,
        after_done=track.after_done,
        delay_s=track.delay_s,
        think_s=track.think_s,
        until=track.until,
        until_more=track.until_more,
    )


def _endpoint(target: Target) -> Endpoint:
    address = urlsplit(target.url)
    return Endpoint(
        scheme="https" if address.scheme == "https" else "http",
        host=address.hostname or "",
        port=address.port or (443 if address.scheme == "https" else 80),
        path=address.path + CHAT_PATH,
    )
