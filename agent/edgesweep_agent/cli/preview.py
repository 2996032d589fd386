"""What ``--dry-run`` prints: what fits, engine starts and hours, before anything is started."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec
import typer

from edgesweep.durations import duration_text
from edgesweep_agent.core.model_shape import ShapeError
from edgesweep_agent.core.preview import ASSUMED_TOKENS_PER_S, Preview, preview
from edgesweep_agent.errors import UsageError
from edgesweep_agent.plan import ManagedSpec, SweepPlan
from edgesweep_agent.sweep.admission import admit
from edgesweep_agent.sweep.contender import label
from edgesweep_agent.sweep.managed import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgesweep.records import Workload
    from edgesweep_agent.plan import ContenderSpec
    from edgesweep_agent.sweep.admission import Admission
    from edgesweep_agent.sweep.box import Box
    from edgesweep_agent.workloads.shape import Shape


async def show_plan(plan: SweepPlan, box: Box) -> None:
    """Print the plan as it will be carried out; nothing is started, and no server is asked.

    Raises:
        UsageError: a model that cannot be read, or cannot be had as the plan wants it.
        SettingsError: a contender that its server refuses.
    """
    contenders = [await _contender(spec, plan, box) for spec in plan.contenders]
    seen = _preview(plan)
    typer.echo(f"{plan.name}: policy {plan.policy}, levels {plan.order}, {plan.thermal}")
    for line in chain.from_iterable(contenders):
        typer.echo(line)
    for level in seen.levels:
        most = f" to {level.most_requests}" if level.most_requests > level.requests else ""
        typer.echo(
            f"{level.workload}: level {level.concurrency:3}: {level.requests}{most} requests, "
            f"about {duration_text(level.seconds)}"
        )
    typer.echo(
        f"{plan.sessions} session(s), {seen.engine_starts} engine starts, about "
        f"{duration_text(seen.seconds)}"
        + (f" to {duration_text(seen.most_seconds)}" if seen.most_seconds > seen.seconds else "")
        + f" in all, assuming {ASSUMED_TOKENS_PER_S:g} output tokens/s of one stream: the sweep "
        f"goes by what it measures; budget {plan.budget or 'none'}"
    )


async def _contender(spec: ContenderSpec, plan: SweepPlan, box: Box) -> list[str]:
    """A contender, and for one that is started by us which levels memory admits, and why."""
    if not isinstance(spec, ManagedSpec):
        return [f"contender {label(spec)} (attached)"]
    if not spec.model.exists():
        raise UsageError(f"contender {label(spec)}: model {spec.model} is not there")
    try:
        found = await admit(spec, plan, plan.levels, box)
    except (UsageError, ShapeError) as error:
        raise UsageError(f"contender {label(spec)}: {error}") from error
    alone = None if spec.as_shipped else spec.slots or 1
    kind_of(msgspec.structs.replace(spec, slots=alone))
    lines = [f"contender {label(spec)} (started by us)"]
    lines += [f"  warning: {found.warning}"] if found.warning else []
    lines += [f"  sized to {found.sized}"] if found.sized else []
    return lines + (list(verdict_lines(found, plan.levels)) or [_unjudged(spec)])


def verdict_lines(found: Admission, levels: Sequence[int]) -> Iterator[str]:
    """For each level whether memory admits it, with the arithmetic; levels of one verdict share it.

    A level that nobody could judge has no line.
    """
    judged = {**found.admitted, **found.refused}
    told = [(level, judged[level]) for level in levels if level in judged]
    for verdict, group in groupby(told, key=itemgetter(1)):
        which = [str(level) for level, _ in group]
        what = "level" if len(which) == 1 else "levels"
        answer = "admit" if verdict.admit else "skip"
        yield f"  {what} {', '.join(which)}: {answer}: {verdict.text}"


def _unjudged(spec: ManagedSpec) -> str:
    why = "as_shipped" if spec.as_shipped else "what is free here is unknown"
    return f"  memory cannot be judged: {why}"


def _preview(plan: SweepPlan) -> Preview:
    managed = sum(isinstance(spec, ManagedSpec) for spec in plan.contenders)
    starts = managed * plan.sessions * (len(plan.levels) if plan.policy == "per_level" else 1)
    return preview(
        [_whole(shape) for shape in plan.shapes()],
        {
            (shape.workload().name, c): (
                plan.requests_at(c, shape),
                plan.most_requests_at(c, shape),
            )
            for shape in plan.shapes()
            for c in plan.levels
        },
        contenders=len(plan.contenders),
        sessions=plan.sessions,
        engine_starts=starts,
        rates={
            shape.workload().name: shape.rate_per_user_per_s
            for shape in plan.shapes()
            if shape.rate_per_user_per_s is not None
        },
        scouts=plan.order == "shuffled" and plan.policy == "fixed",
    )


def _whole(shape: Shape) -> Workload:
    """With the opening that its requests share, which has to be worked off as well."""
    workload = shape.workload()
    return replace(workload, prompt_tokens=workload.prompt_tokens + shape.shared_tokens)
