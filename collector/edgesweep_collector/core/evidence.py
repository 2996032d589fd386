"""The evidence behind a verdict in words, and how its figures are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgesweep_collector.core.answer import Answer
    from edgesweep_collector.core.capacity import Capacity
    from edgesweep_collector.core.problem import Problem

# Above this many units their own crossovers are told as a range.
_FEW_UNITS = 8


def evidence(problem: Problem, answer: Answer) -> Iterator[str]:
    """Interval, units, range, tie band and each unit's own crossing, as far as there are any."""
    figures = answer.figures
    if answer.reason:
        yield answer.reason
    if figures.ci95:
        yield _interval(figures.ci95.low, figures.ci95.high, figures.ci95.open)
    if answer.units:
        yield _counted(problem, answer)
    if answer.range:
        low, high = answer.range
        yield f"measured at {low}" if low == high else f"measured {low} to {high}"
    if figures.tie_band:
        yield _tie_band(problem, figures.tie_band)
    yield from _one_by_one(problem, answer)
    yield from _failures(problem, answer)
    yield from _limits(problem, answer)


def _one_by_one(problem: Problem, answer: Answer) -> Iterator[str]:
    """Each unit's own crossover, for as many as have exactly one."""
    own = [rounded(c) for c in sorted(c for _, c in answer.unit_crossovers if c is not None)]
    noun = "session" if problem.unit_kind == "session" else "unit"
    if 0 < len(own) <= _FEW_UNITS:
        yield f"per {noun} {', '.join(own)}"
    elif own:
        yield f"per {noun} {own[0]} to {own[-1]}"


def _failures(problem: Problem, answer: Answer) -> Iterator[str]:
    where = " on some units" if answer.units > 1 else ""
    for engine, failed in (
        (problem.engine_a, answer.failed_a),
        (problem.engine_b, answer.failed_b),
    ):
        if failed:
            yield f"no valid result of {engine} at {', '.join(map(str, failed))}{where}"


def _interval(low: float, high: float, ends: tuple[str, ...]) -> str:
    if len(ends) == 2:
        return "95 % interval open on both sides"
    if ends:
        bound = f"at most {rounded(high)}" if ends[0] == "low" else f"at least {rounded(low)}"
        return f"95 % interval open: {bound}"
    return f"95 % interval {rounded(low)} to {rounded(high)}"


def _tie_band(problem: Problem, band: tuple[float | None, float | None]) -> str:
    low, high = (rounded(end) if end is not None else "an unknown level" for end in band)
    return f"the two are within {percent(problem.margin)} of each other from {low} to {high}"


def _counted(problem: Problem, answer: Answer) -> str:
    noun = "session" if problem.unit_kind == "session" and answer.units > 1 else "unit"
    return f"{answer.units} {noun}{'s' if answer.units > 1 else ''}"


def _limits(problem: Problem, answer: Answer) -> Iterator[str]:
    """Memory limits that the verdict itself does not tell."""
    if answer.capacity is None or answer.capacity_crossover is not None:
        return
    limited = answer.capacity.limited
    who = "both engines" if limited == "both" else problem.engine(limited)
    yield f"memory stops {who}: {limit_words(answer.capacity)}"


def limit_words(capacity: Capacity | None) -> str:
    """Where memory stops an engine, in words; empty if it does not."""
    if capacity is None:
        return ""
    ran = f"ran at {capacity.last_ok}" if capacity.last_ok else "never ran"
    return f"{ran}, failed at {capacity.first_failed}"


def percent(share: float) -> str:
    """A share, such as 0.05, in per cent."""
    return f"{digits(share * 100)} %"


def digits(value: float) -> str:
    """A percentage to two figures, or to the unit from ten on."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def rounded(value: float) -> str:
    """A concurrency to two figures, without an exponent."""
    return f"{float(f'{value:.2g}'):.15g}"
