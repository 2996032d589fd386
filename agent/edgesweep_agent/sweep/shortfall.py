"""What a level lacks that the budget cut or left out, in words that go into its attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.budget import SHORTER, WARMUP_BURSTS, LevelCost, remaining_s, smaller
from edgesweep_agent.workloads.registry import QUICK

if TYPE_CHECKING:
    from edgesweep_agent.plan import SweepPlan
    from edgesweep_agent.workloads.shape import Shape

    from .task import Measured, Task

_SHRINKING = frozenset({"chat", "natural", "replay"})
"""Kinds whose requests are alike, so that fewer of them are a smaller level."""


def requests_of(plan: SweepPlan, shape: Shape, concurrency: int) -> int:
    """What a level sends, with as little warm-up as it can have."""
    return plan.requests_at(concurrency, shape) + WARMUP_BURSTS * concurrency


def said(lacking: str) -> dict[str, str]:
    """As an attribute of a level that the budget left out, or cut."""
    return {"time_budget": lacking} if lacking else {}


def of_cut(task: Task, seen: Measured) -> dict[str, str]:
    """What a level that was cut lacks, and which smaller one would have gone into its time.

    Nothing of one that was cut in a silence: its pace says nothing of the server's.
    """
    if "silence_s" in seen.level.attributes:
        task.ledger.lacks(None)
        return {}
    concurrency, plan = task.concurrency, task.ledger.plan
    under_way = seen.requests - len(seen.samples) - seen.warmed_up
    warmup = max(0, WARMUP_BURSTS * concurrency - seen.warmed_up)
    left = plan.requests_at(concurrency, task.shape) - len(seen.samples) + warmup - under_way
    cost = LevelCost(concurrency, seen.requests, seen.seconds)
    # Where nothing was answered, each takes longer than all that there was.
    request_s = max(seen.seconds, task.ready.target.trial_s)
    lacking = task.ledger.lacks(
        remaining_s(cost, cost.requests + max(0.0, left)), least_s=request_s * left / concurrency
    )
    return {**said(lacking), **_smaller(task, seen)}


def _smaller(task: Task, seen: Measured) -> dict[str, str]:
    shape = task.shape
    if seen.pace is None or shape.kind not in _SHRINKING or shape.arrival != "closed":
        return {}
    # As an option, a length of answers comes with prompts of the quick workload.
    is_quick = shape.kind == "chat" and shape.prompt_tokens == QUICK.prompt_tokens
    requests, tokens = task.ledger.plan.requests_at(task.concurrency, shape), shape.output_tokens
    found = smaller(
        seen.pace,
        seen.seconds,
        task.concurrency,
        requests=requests,
        tokens=tokens,
        shorter=SHORTER if is_quick else (),
    )
    if found is None or found == (requests, tokens):
        return {}
    options = [f"--requests {found[0]}"] if found[0] < requests else []
    options += [f"--output-tokens {found[1]}"] if found[1] < tokens else []
    return {"time_budget_fits": " ".join(options)}
