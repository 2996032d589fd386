"""What the samples of fan-outs, tasks and interference come to, beside what every level has.

A figure that was not measured is absent. Instants are monotonic nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from edgesweep.quantiles import distribution

from .arrangement import AGAIN, COLD, JOIN, TASK, WARM, by_number
from .phases import interference
from .tool_schema import is_call
from .window import Window, last_text_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgesweep.records import Distribution, Sample

    from .arrangement import Arrangement
    from .tool_schema import Tool

_SECOND_NS = 1_000_000_000
_T = TypeVar("_T")

_Steps = list[tuple[str, "Sample"]]
"""The samples of one burst or task, with the step that each belongs to."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Metrics by their registered names, and what is said in words (``slowest_step``)."""

    values: Mapping[str, float] = field(default_factory=dict)
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)


def figures(samples: Sequence[Sample], arrangement: Arrangement) -> Figures:
    """The figures that only this workload has; none for plain requests."""
    if arrangement.window == "burst":
        return fanout(samples, arrangement.shared_tokens)
    if arrangement.window == "task":
        return tasks(samples, arrangement.steps, arrangement.tools)
    if arrangement.window == "phases":
        return Figures(interference(samples, arrangement.resident, arrangement.newcomer))
    return Figures()


def fanout(samples: Sequence[Sample], shared_tokens: int) -> Figures:
    """Cold and warm bursts as two numbers, and what reuse of the opening gave.

    A makespan is that of a whole burst: one with a failed request has none.

    Args:
        samples: All of the level.
        shared_tokens: Length of the opening.
    """
    values = {
        "prefix_hit_share": _prefix_hit_share(samples, shared_tokens),
        "same_text_share": _same_text_share(samples),
    }
    found: dict[str, Distribution | None] = {}
    for of in (COLD, WARM):
        found[f"makespan_{of}_s"] = distribution(w.seconds for w in burst_windows(samples, of))
        found[f"ttft_{of}_s"] = distribution(
            sample.ttft_s for sample in questions(samples, of) if sample.ttft_s is not None
        )
    return Figures(_known(values), _known(found))


def burst_windows(samples: Iterable[Sample], of: str) -> tuple[Window, ...]:
    """First send to last token, join included, of every burst that was answered as a whole."""
    bursts = by_number(samples, of).values()
    return tuple(
        _span(sample for _, sample in burst) for burst in bursts if _whole(burst, ("", JOIN))
    )


def questions(samples: Iterable[Sample], of: str) -> list[Sample]:
    """The answered requests of the bursts, without the joins."""
    bursts = by_number(samples, of).values()
    return [sample for burst in bursts for step, sample in burst if step != JOIN and sample.ok]


def _prefix_hit_share(samples: Sequence[Sample], shared_tokens: int) -> float | None:
    """Share of the opening that warm requests found in the cache, by the engine's own count.

    vLLM leaves the count out of an answer that took nothing from its cache, so that one answer
    with a count speaks for those without.
    """
    warm = questions(samples, WARM)
    told = [sample.cached_tokens for sample in samples if sample.ok]
    if not warm or not shared_tokens or all(tokens is None for tokens in told):
        return None
    hits = sum(min(sample.cached_tokens or 0, shared_tokens) for sample in warm)
    return hits / (shared_tokens * len(warm))


def _same_text_share(samples: Iterable[Sample]) -> float | None:
    """Share of the questions asked twice that were answered in the same words.

    Reuse must not change an answer; that it does, batching and rounding aside, is worth knowing.
    """
    known = list(samples)
    first, second = (
        [s for step, s in by_number(known, of).get(1, []) if not step] for of in (COLD, AGAIN)
    )
    if not first or not second:
        return None
    start, again = (min(s.index for s in part) for part in (first, second))
    texts = {s.index - again: s.text for s in second if s.ok and s.text}
    pairs = [
        (s.text, texts[s.index - start])
        for s in first
        if s.ok and s.text and s.index - start in texts
    ]
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else None


def tasks(samples: Sequence[Sample], steps: Sequence[str], tools: Sequence[Tool] = ()) -> Figures:
    """How long whole tasks took, which step was the slowest, and how their tool calls went.

    Args:
        samples: All of the level.
        steps: Names of a task's serial steps; a task without one of them is not whole.
        tools: What every answer must call; empty where it need not.
    """
    each = [_named(task, steps) for task in by_number(samples, TASK).values()]
    whole = [task for task in each if _whole(task, steps)]
    durations = [{step: _step_s(task, step) for step in steps} for task in whole]
    found = {
        "task_s": distribution(_span(sample for _, sample in task).seconds for task in whole),
        "step_s": distribution(max(one.values()) for one in durations),
    }
    if tools:
        actions = (_first_action_s(task, tools) for task in each)
        found["time_to_first_action_s"] = distribution(s for s in actions if s is not None)
    share = _valid_share(samples, tools)
    return Figures(_known({"tool_call_valid_share": share}), _known(found), _slowest(durations))


def _named(task: _Steps, steps: Sequence[str]) -> _Steps:
    """A step is named by its part, or by its position in a conversation."""
    return [
        (
            steps[sample.step]
            if not step and sample.step is not None and 0 <= sample.step < len(steps)
            else step,
            sample,
        )
        for step, sample in task
    ]


def _slowest(durations: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """The step that takes longest by its median over the tasks."""
    if not durations:
        return {}
    typical = {step: median(one[step] for one in durations) for step in durations[0]}
    return {"slowest_step": max(typical, key=lambda step: typical[step])}


def _step_s(task: _Steps, step: str) -> float:
    return _span(sample for name, sample in task if name == step).seconds


def _first_action_s(task: _Steps, tools: Sequence[Tool]) -> float | None:
    """Start of the task to the end of its first valid call."""
    start_ns = min(sample.t_send_ns for _, sample in task)
    ends = [last_text_ns(sample) for _, sample in task if sample.ok and _calls(sample, tools)]
    return (min(ends) - start_ns) / _SECOND_NS if ends else None


def _valid_share(samples: Iterable[Sample], tools: Sequence[Tool]) -> float | None:
    """Of the answers whose text was kept."""
    kept = [sample for sample in samples if sample.ok and (sample.text or sample.tool_calls)]
    if not tools or not kept:
        return None
    return sum(_calls(sample, tools) for sample in kept) / len(kept)


def _calls(sample: Sample, tools: Sequence[Tool]) -> bool:
    return is_call(sample.tool_calls or sample.text, tools)


def _whole(requests: _Steps, steps: Sequence[str]) -> bool:
    """Whether every step is there and every request was answered."""
    return {step for step, _ in requests} == set(steps) and all(s.ok for _, s in requests)


def _span(samples: Iterable[Sample]) -> Window:
    """First send to last token of answered requests."""
    known = list(samples)
    return Window(min(s.t_send_ns for s in known), max(last_text_ns(s) for s in known))


def _known(found: Mapping[str, _T | None]) -> dict[str, _T]:
    return {name: value for name, value in found.items() if value is not None}
