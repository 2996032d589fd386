"""A level that the budget cut: too slow, or silent, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import anyio
import pytest

import wire
from edgesweep.records import LevelStatus
from edgesweep_agent.core.exchange import Exchange
from edgesweep_agent.core.pace import Pace
from edgesweep_agent.loadgen.client import LevelOutcome
from edgesweep_agent.plan import AttachedSpec, SweepPlan
from edgesweep_agent.sweep.ledger import Ledger
from edgesweep_agent.sweep.recorder import Recorders
from edgesweep_agent.sweep.result import _out_of_time
from edgesweep_agent.sweep.shortfall import of_cut
from edgesweep_agent.sweep.task import Measured, Task

S = 1_000_000_000
LEVEL = wire.level(1, flags=(), n_ok=0, started_mono_ns=0)


def task(budget="120s", trial_s=1.0, workload="chat-64-32"):
    plan = SweepPlan((AttachedSpec("http://h"),), levels=(1,), workloads=(workload,), budget=budget)
    ledger = Ledger("r", plan, wire.DEVICE, Recorders(()))
    ledger._began_s -= plan.budget_s
    target = SimpleNamespace(trial_s=trial_s, overhead_tokens=0)
    return Task(
        ready=SimpleNamespace(target=target),
        shape=plan.shapes()[0],
        concurrency=1,
        session=1,
        position=1,
        verdict=None,
        per_request_bytes=None,
        attributes={},
        ledger=ledger,
        box=None,
        seed=1,
        stop=anyio.Event(),
        keep_text=False,
    )


def test_a_cut_level_tells_what_it_lacks_and_what_would_have_gone_in():
    # One request of warm-up in 68 s, and most of the next.
    slow = Measured(LEVEL, (), requests=1.65, seconds=112.0, warmed_up=1, pace=Pace(6.0, 2.0))
    assert of_cut(task(), slow) == {
        "time_budget": "needs about 13 min more: --budget 17m",
        "time_budget_fits": "--requests 3 --output-tokens 8",
    }


def test_options_that_would_change_the_prompts_are_not_offered():
    slow = Measured(LEVEL, (), requests=1.5, seconds=400.0, warmed_up=1, pace=Pace(6.0, 2.0))
    told = of_cut(task(workload="chat-512-128"), slow)
    assert "time_budget_fits" not in told
    quick = Measured(LEVEL, (), requests=1.5, seconds=400.0, warmed_up=1, pace=Pace(6.0, 0.4))
    assert of_cut(task(workload="chat-512-128"), quick)["time_budget_fits"] == "--requests 3"


def test_where_no_token_came_it_needs_that_much_a_request_at_least():
    nothing = Measured(LEVEL, (), requests=0, seconds=30.0)
    assert of_cut(task(), nothing) == {"time_budget": "needs at least 7 min more: --budget 10m"}
    # Even one token takes longer, as the first completion has shown.
    assert of_cut(task(trial_s=60.0), nothing) == {
        "time_budget": "needs at least 13 min more: --budget 17m"
    }


def test_of_one_that_was_cut_in_a_silence_no_pace_is_told():
    silent = replace(LEVEL, attributes={"silence_s": "8"})
    seen = Measured(silent, (), requests=4.0, seconds=9.0, warmed_up=3, pace=Pace(0.1, 0.01))
    assert of_cut(task(), seen) == {}


def silent_for(seconds):
    """What a level leaves behind whose one request had no byte for so long."""
    sent = Exchange(0, S, S, None, None, (), (), (1 + seconds) * S, "cancelled")
    return LevelOutcome((), stopped_by="deadline", n_warmup=1, warmup_cut=(sent,))


@pytest.mark.parametrize(
    ("seconds", "trial_s", "status", "reason", "told"),
    [
        # The prompt is twice that of the first completion.
        (108, 0.1, LevelStatus.FAILED, "timeout", "108"),
        (108, 30.0, LevelStatus.SKIPPED, "time_budget", None),
        (15, 0.1, LevelStatus.SKIPPED, "time_budget", "15"),
        (1, 0.1, LevelStatus.SKIPPED, "time_budget", None),
    ],
)
def test_a_server_that_hangs_is_a_failure_and_a_slow_one_is_not(
    seconds, trial_s, status, reason, told
):
    level = _out_of_time(LEVEL, task(trial_s=trial_s), silent_for(seconds))
    assert (level.status, level.reason) == (status, reason)
    assert level.attributes.get("silence_s") == told
