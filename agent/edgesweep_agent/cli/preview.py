"""What ``--dry-run`` prints: levels, engine starts and hours, before anything is started."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from edgesweep_agent.core.preview import ASSUMED_TOKENS_PER_S, Preview, preview
from edgesweep_agent.plan import ManagedSpec, SweepPlan

if TYPE_CHECKING:
    from edgesweep.records import Workload
    from edgesweep_agent.workloads.shape import Shape


def show_plan(plan: SweepPlan) -> None:
    """Print the plan as it will be carried out."""
    seen = _preview(plan)
    typer.echo(f"{plan.name}: policy {plan.policy}, levels {plan.order}, {plan.thermal}")
    for spec in plan.contenders:
        name = spec.name or getattr(spec, "url", "") or str(getattr(spec, "model", ""))
        how = "started by us" if isinstance(spec, ManagedSpec) else "attached"
        typer.echo(f"contender {name} ({how})")
    for level in seen.levels:
        most = f" to {level.most_requests}" if level.most_requests > level.requests else ""
        typer.echo(
            f"{level.workload}: level {level.concurrency:3}: {level.requests}{most} requests, "
            f"about {_duration(level.seconds)}"
        )
    typer.echo(
        f"{plan.sessions} session(s), {seen.engine_starts} engine starts, about "
        f"{_duration(seen.seconds)}"
        + (f" to {_duration(seen.most_seconds)}" if seen.most_seconds > seen.seconds else "")
        + f" in all, if one stream has {ASSUMED_TOKENS_PER_S:g} output tokens/s; "
        f"budget {plan.budget or 'none'}"
    )


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


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
