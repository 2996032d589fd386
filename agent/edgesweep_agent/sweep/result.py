"""What a level came to: its samples summed up, and judged by what was seen meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from edgesweep.records import LevelStatus
from edgesweep_agent import trial
from edgesweep_agent.core import gpu_memory, validity
from edgesweep_agent.core.evidence import ClientEvidence
from edgesweep_agent.core.pace import is_hung, is_odd, silence_s
from edgesweep_agent.core.slo import Slo
from edgesweep_agent.core.startfacts import OF_MEMORY
from edgesweep_agent.core.summary import summarise
from edgesweep_agent.loadgen.client import ASKED, DIED
from edgesweep_agent.workloads.registry import SHARING

from .power import of_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep.records import LevelResult, Sample
    from edgesweep_agent.core.evidence import Evidence
    from edgesweep_agent.core.pressure import GuardReport
    from edgesweep_agent.core.startfacts import StartFailure
    from edgesweep_agent.core.summary import LevelSummary
    from edgesweep_agent.loadgen.client import LevelOutcome
    from edgesweep_agent.plan import Price

    from .arrange import Arranged
    from .task import Task

_MILLION = 1e6
_EXACT = frozenset({"chat", "natural"})
_FAILED_BY = {DIED: "client_died", "silent": "timeout"}
"""What ended the load generator's level, and the level with it."""
"""Kinds whose prompts all come to the workload's own length."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back from a level beside its samples."""

    outcome: LevelOutcome
    evidence: Evidence
    memory: GuardReport


def result(
    level: LevelResult, task: Task, arranged: Arranged, samples: Sequence[Sample], seen: Seen
) -> LevelResult:
    """The level with its figures, its flags, and its status."""
    summary = summarise(
        samples,
        level.concurrency,
        asked_output_tokens=arranged.plan.asked_output_tokens,
        most_output_tokens=arranged.plan.most_output_tokens,
        least_prompt_tokens=_least_prompt_tokens(task, arranged),
        interrupted=_is_cut(samples, arranged, seen.outcome),
        arrangement=arranged.plan.arrangement,
        slo=_slo(task),
    )
    evidence = _completed(seen, summary, task)
    flags = validity.flags(
        _facts(level, arranged, samples, seen.outcome, summary),
        evidence,
        _expected(task, arranged),
    )
    soaked = task.ledger.plan.thermal == "soaked"
    status, reason = validity.judged(summary.status, summary.reason, flags, soaked=soaked)
    power = of_level(task.box, summary, samples)
    level = replace(
        level,
        status=status,
        reason=reason,
        flags=(*summary.flags, *flags),
        n_ok=summary.n_ok,
        n_failed=summary.n_failed,
        failed_by=summary.failed_by,
        values={
            **task.ready.values,
            **evidence.values(),
            **summary.values,
            **_client(seen.outcome),
            **_memory(task, seen.memory),
            **_cost(summary, task.ready.price),
            **power.values,
        },
        distributions=summary.distributions,
        block_output_tokens_per_s=summary.block_output_tokens_per_s,
        attributes={
            **level.attributes,
            **summary.attributes,
            **power.attributes,
            **_precision(task, seen.outcome),
            **_replayed(task, samples),
            **_gpu_memory(task),
        },
        verdict=task.verdict,
        window_mono_ns=summary.window_ns,
    )
    return _ended_early(level, task, seen)


def _gpu_memory(task: Task) -> dict[str, str]:
    left = gpu_memory.text(task.box.gpus())
    return {"gpu_memory_after": left} if left else {}


def _is_cut(samples: Sequence[Sample], arranged: Arranged, outcome: LevelOutcome) -> bool:
    """Whether the level was stopped before it had what it was to have."""
    if outcome.stopped_by == "precision" or arranged.plan.open_ended:
        return outcome.stopped_by == ASKED
    return len(samples) < arranged.plan.requests and bool(outcome.stopped_by)


def _ended_early(level: LevelResult, task: Task, seen: Seen) -> LevelResult:
    """What ended the level outranks what its samples say."""
    if seen.memory.reason:
        return replace(level, status=LevelStatus.FAILED, reason=seen.memory.reason)
    if task.ready.breach() is not None:
        return replace(level, status=LevelStatus.FAILED, reason="memory_floor")
    if task.ready.died() is not None:
        return _engine_ended(level, task.ready.end())
    if seen.outcome.stopped_by in _FAILED_BY:
        reason = _FAILED_BY[seen.outcome.stopped_by]
        return replace(level, status=LevelStatus.FAILED, reason=reason)
    if seen.outcome.stopped_by == "deadline":
        return _out_of_time(level, task, seen.outcome)
    return level


def _out_of_time(level: LevelResult, task: Task, outcome: LevelOutcome) -> LevelResult:
    """The budget ended it: unless that only ended the wait for a server that hangs."""
    known = (*outcome.exchanges, *outcome.warmup_cut)
    silent_s = silence_s(known, level.started_mono_ns, time.monotonic_ns())
    beginning_s = _beginning_s(task)
    if is_odd(silent_s, beginning_s):
        level = replace(level, attributes={**level.attributes, "silence_s": f"{silent_s:.0f}"})
    if is_hung(silent_s, beginning_s):
        return replace(level, status=LevelStatus.FAILED, reason="timeout")
    return replace(level, status=LevelStatus.SKIPPED, reason="time_budget")


def _beginning_s(task: Task) -> float:
    """What a first token should take: by that of the first completion, were all one after another.

    That one had a short prompt.
    """
    target, shape = task.ready.target, task.shape
    trial_tokens = trial.WORDS + target.overhead_tokens
    prompt_tokens = shape.prompt_tokens + shape.shared_tokens + target.overhead_tokens
    return target.trial_s * max(1.0, prompt_tokens / trial_tokens) * task.concurrency


def _engine_ended(level: LevelResult, end: StartFailure | None) -> LevelResult:
    """With what its log says of it: an allocation that failed is a matter of memory."""
    if end is None:
        return replace(level, status=LevelStatus.FAILED, reason="engine_exited")
    return replace(
        level,
        status=LevelStatus.FAILED,
        reason="oom" if end.kind in OF_MEMORY else "engine_exited",
        attributes={**level.attributes, "engine_end": end.line},
    )


def _precision(task: Task, outcome: LevelOutcome) -> dict[str, str]:
    """Whether the level became as precise as the plan wants it."""
    wanted = task.ledger.plan.precision
    if wanted is None:
        return {}
    reached = "reached" if outcome.stopped_by == "precision" else "not reached"
    return {"precision": f"{wanted:g} {reached}"}


def _replayed(task: Task, samples: Sequence[Sample]) -> dict[str, str]:
    """What a replay came to, as far as the engine counted it."""
    if task.shape.kind != "replay":
        return {}
    told = [
        f"{fmean(counts):.0f} {what} tokens"
        for what, counts in (
            ("prompt", [x.prompt_tokens for x in samples if x.prompt_tokens is not None]),
            ("output", [x.output_tokens for x in samples if x.ok and x.output_tokens is not None]),
        )
        if counts
    ]
    return {"replayed": f"mean {' and '.join(told)}"} if told else {}


def _least_prompt_tokens(task: Task, arranged: Arranged) -> float:
    """What no prompt falls short of, unless the server cut it.

    Less a tenth where the engine's own tokenizer made them exact, less half where words had to do.
    """
    if task.shape.kind not in _EXACT:
        return 0.0
    return task.shape.prompt_tokens * (0.9 if arranged.fitted.calibrated else 0.5)


def _slo(task: Task) -> Slo:
    slo = task.ledger.plan.slo
    return Slo(slo.ttft_s, slo.tpot_s, slo.e2e_s)


def _facts(
    level: LevelResult,
    arranged: Arranged,
    samples: Sequence[Sample],
    outcome: LevelOutcome,
    summary: LevelSummary,
) -> validity.LevelFacts:
    # Only a plain closed loop has a rate that is meant to be level.
    steady = arranged.plan.window == "steady"
    return validity.LevelFacts(
        concurrency=level.concurrency,
        in_flight=int(summary.values.get("peak_in_flight", level.concurrency)),
        requests=len(samples) + outcome.n_warmup,
        samples=samples,
        blocks=summary.block_output_tokens_per_s if steady else (),
    )


def _expected(task: Task, arranged: Arranged) -> validity.Expectations:
    ready = task.ready
    return validity.Expectations(
        shares_prompts=task.shape.kind in SHARING and not arranged.repeats,
        cache_off=ready.cache_off,
        template_tokens=ready.target.overhead_tokens,
        slots=ready.slots,
        may_queue=arranged.plan.window == "open",
        weights_bytes=ready.weights_bytes,
        soaked=task.ledger.plan.thermal == "soaked",
    )


def _completed(seen: Seen, summary: LevelSummary, task: Task) -> Evidence:
    """The evidence with what the load generator and the guard know."""
    outcome, icl = seen.outcome, summary.distributions.get("icl_s")
    ttft = summary.distributions.get("ttft_s")
    client = ClientEvidence(
        cpu_s=outcome.client_cpu_s,
        lag_p99_s=outcome.client_lag_p99_s,
        lag_max_s=outcome.client_lag_max_s,
        realtime=outcome.client_realtime,
        icl_p50_s=None if icl is None else icl.p50,
        ttft_p50_s=None if ttft is None else ttft.p50,
    )
    host = replace(
        seen.evidence.host,
        available_min_bytes=seen.memory.minimum_available_bytes,
        swap_growth_bytes=seen.memory.swap_growth_bytes,
        reserve_bytes=task.ledger.plan.reserve_bytes,
    )
    return replace(seen.evidence, host=host, client=client)


def _client(outcome: LevelOutcome) -> dict[str, float]:
    """What measuring cost, beside what it measured: the client shares the engine's cores."""
    told = {
        "client_cpu_s": outcome.client_cpu_s,
        "client_lag_max_s": outcome.client_lag_max_s,
        "client_lag_p99_s": outcome.client_lag_p99_s,
        "warmup_bursts": float(len(outcome.warmup_burst_s)),
    }
    return {name: value for name, value in told.items() if value is not None}


def _memory(task: Task, report: GuardReport) -> dict[str, float]:
    told = {
        "bytes_per_request": task.per_request_bytes,
        "memory_peak_bytes": task.ready.footprint.taken_bytes(report.minimum_available_bytes),
    }
    return {name: float(value) for name, value in told.items() if value is not None}


def _cost(summary: LevelSummary, price: Price | None) -> dict[str, float]:
    """Both kinds of tokens, spread over those that came out."""
    prompt, output = summary.values.get("prompt_tokens"), summary.values.get("output_tokens")
    if price is None or prompt is None or not output:
        return {}
    paid = prompt * price.input_per_million + output * price.output_per_million
    return {"cost_per_million_output_tokens": paid / output}
