"""The verdict as one sentence that a buyer can act on: never a bare number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from edgesweep_collector.core.evidence import digits, evidence, limit_words, percent, rounded
from edgesweep_collector.core.flags import Flag
from edgesweep_collector.core.labels import Kind
from edgesweep_collector.core.problem import Problem, Side, other

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from edgesweep_collector.core.answer import Answer

_CLASS_UNITS = 3

# {x} and {y} are the engines behind the verdict's X and Y; see ``_fields`` for the others.
_CLAIMS: Final[Mapping[Kind, str]] = {
    Kind.CROSSOVER: "{y} overtakes {x} {place}",
    Kind.DOMINATES: "{x} leads {y} {everywhere}, by {lead}",
    Kind.TIE_THEN: "{x} and {y} tie at first, then {x} leads{start} by {lead}{end}",
    Kind.UNRESOLVED_THEN: "{x} leads by {lead}, proven from {bound}; below it is unresolved{end}",
    Kind.THEN_TIE: "{x} leads by {lead}{end}, then ties with {y}",
    Kind.THEN_UNRESOLVED: "{x} leads by {lead}, proven up to {bound}; above it is unresolved",
    Kind.TIE: "{a} and {b} are within {margin} of each other {everywhere}",
    Kind.INCONCLUSIVE: "neither {a} nor {b} is proven ahead{excluded}",
    Kind.MULTIPLE_CROSSINGS: "the lead between {a} and {b} changes hands more than once: {changes}",
    Kind.NO_OVERLAP: "{a} and {b} cannot be compared",
    Kind.INSUFFICIENT_DATA: "{a} and {b} cannot be compared yet",
    Kind.CAPACITY_CROSSOVER: (
        "{x} leads by {lead} up to its memory limit ({limit}), beyond which {y} runs alone"
    ),
    Kind.TIE_BY_CAPACITY: "{x} and {y} tie until memory stops {x} ({limit}), and {y} runs on alone",
    Kind.INCONCLUSIVE_BY_CAPACITY: (
        "neither is proven ahead until memory stops {x} ({limit}), and {y} runs on alone"
    ),
}

_ADVICE: Final[Mapping[Kind, str]] = {
    Kind.CROSSOVER: "{switch}",
    Kind.DOMINATES: "use {x} {over}",
    Kind.TIE_THEN: "use {x} from {from}, either {before}",
    Kind.UNRESOLVED_THEN: "use {x} from {bound}",
    Kind.THEN_TIE: "use {x} up to {upto}, either {after}",
    Kind.THEN_UNRESOLVED: "use {x} up to {bound}",
    Kind.TIE: "choose by something other than this metric",
    Kind.INCONCLUSIVE: "measure more units or sessions before choosing by this metric",
    Kind.MULTIPLE_CROSSINGS: "choose for the concurrency you will run, not by one switching point",
    Kind.NO_OVERLAP: "measure both at the same levels",
    Kind.INSUFFICIENT_DATA: "measure what is missing",
    Kind.CAPACITY_CROSSOVER: "use {x} up to {last_ok}, {y} from {first_failed}",
    Kind.TIE_BY_CAPACITY: "use {y} to reach beyond {last_ok}",
    Kind.INCONCLUSIVE_BY_CAPACITY: "use {y} to reach beyond {last_ok}",
}

CAVEATS: Final[Mapping[Flag, str]] = {
    Flag.SINGLE_DEVICE: "one unit speaks for itself, not for its hardware class",
    Flag.NO_REPEATS: "no interval, since nothing was repeated",
    Flag.POOLED_REPEATS: "the interval rests on repeats of one unit and may be too short",
    Flag.LOW_SESSIONS: "fewer than three sessions, pooled as repeats",
    Flag.LOW_DEVICES: "two units give a wide interval; measure a third",
    Flag.PARTIAL_RANGE: "units that do not cover the range were set aside",
    Flag.COARSE_BRACKET: "the levels around it are more than a doubling apart; add one between",
    Flag.GAP_IN_BRACKET: "a level in between has no valid result, so no point is given",
    Flag.TIE_INSIDE: "they tie at a level inside the range",
    Flag.UNRESOLVED_INSIDE: "a level inside the range is unresolved",
    Flag.VALUES_DROPPED: "values that were not above zero were left out",
}


def words(
    problem: Problem, answer: Answer, *, metric: str | None = None, caveats: bool = True
) -> str:
    """``answer`` as one sentence: metric, scope, claim, evidence, advice and every caveat.

    Args:
        problem: What was asked.
        answer: What was answered.
        metric: What the reader calls the metric, if not by its registered name.
        caveats: Whether to end with them; without, they have to be told beside the sentence.
    """
    fields = _fields(problem, answer)
    kind = answer.verdict.kind
    claim = _CLAIMS[kind].format_map(fields)
    behind = "; ".join(evidence(problem, answer))
    advice = _ADVICE[kind].format_map(fields)
    told = "".join(f"; {caveat}" for caveat in caveats_of(answer)) if caveats else ""
    better = "higher" if problem.higher_is_better else "lower"
    subject = f"{metric or problem.metric} ({better} is better), {scope(answer)}"
    return f"{subject}: {claim} ({behind}): {advice}{told}."


def caveats_of(answer: Answer) -> tuple[str, ...]:
    """What the answer does not say, one phrase per flag."""
    return tuple(CAVEATS[flag] for flag in answer.flags)


def scope(answer: Answer) -> str:
    """What the answer is about: a hardware class from three units on, below it these units."""
    if Flag.SINGLE_DEVICE in answer.flags or answer.units == 1:
        return "this unit"
    if answer.units < _CLASS_UNITS:
        return "this unit pair" if answer.units else "these units"
    return "this hardware class"


def _fields(problem: Problem, answer: Answer) -> dict[str, str]:
    x = answer.verdict.x or "A"
    capacity = answer.capacity
    return {
        "a": problem.engine_a,
        "b": problem.engine_b,
        "x": problem.engine(x),
        "y": problem.engine(other(x)),
        "margin": percent(problem.margin),
        "everywhere": _everywhere(answer),
        "place": _place(answer),
        "lead": _lead(answer),
        "start": _at(" from about ", answer.figures.leads_from),
        "end": _at(" up to about ", answer.figures.leads_until),
        "from": str(_rounded_up(answer)),
        "before": _span_of_levels(_range(answer)[0], _rounded_up(answer) - 1),
        "upto": str(_rounded_down(answer)),
        "after": _span_of_levels(_rounded_down(answer) + 1, _range(answer)[1]),
        "bound": str(answer.figures.bound),
        "excluded": _excluded(problem, answer),
        "changes": ", ".join(_changes(problem, answer)),
        "limit": limit_words(capacity),
        "last_ok": str(capacity.last_ok) if capacity else "",
        "first_failed": str(capacity.first_failed) if capacity else "",
        "switch": _switch(problem, answer, x),
        "over": _over(answer),
    }


def _everywhere(answer: Answer) -> str:
    """Where a single leader leads, and what is between: a tie inside the range is no lead."""
    if len(answer.levels) == 1:
        return "at the one level measured"
    winner = answer.verdict.x
    by_label: dict[str, list[str]] = {}
    for level, label in zip(answer.levels, answer.labels, strict=True):
        by_label.setdefault(label, []).append(str(level))
    if winner not in by_label or by_label.keys() == {winner}:
        one_sided = answer.failed_a or answer.failed_b
        return "wherever both have a valid result" if one_sided else "at every level measured"
    between = [
        f"{what} at {_listed(by_label[label])}"
        for label, what in (("T", "tied"), ("U", "unresolved"))
        if label in by_label
    ]
    return f"at {_listed(by_label[winner])} ({', '.join(between)})"


def _over(answer: Answer) -> str:
    """The levels that the lead was seen at: nothing is said beyond them."""
    return _span_of_levels(*_range(answer))


def _range(answer: Answer) -> tuple[int, int]:
    return answer.range or (0, 0)


def _span_of_levels(low: int, high: int) -> str:
    return f"at {low}" if low >= high else f"from {low} to {high}"


def _listed(names: list[str]) -> str:
    """``2``, ``2 and 4``, ``2, 4 and 8``."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _place(answer: Answer) -> str:
    figures = answer.figures
    if figures.crossover is not None:
        return f"at about {rounded(figures.crossover)} simultaneous requests"
    low, high = figures.bracket or (0, 0)
    return f"somewhere between {low} and {high} simultaneous requests"


def _lead(answer: Answer) -> str:
    if answer.figures.lead_ratio is None:
        return "an unknown amount"
    low, high = answer.figures.lead_ratio
    if high < 2:
        return f"{_span(digits(low * 100 - 100), digits(high * 100 - 100))} %"
    return f"a factor of {_span(f'{low:.2g}', f'{high:.2g}')}"


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _rounded_up(answer: Answer) -> int:
    """The first whole level at which a lead that starts in a tie is beyond the margin."""
    start = answer.figures.leads_from
    return _ceil(start) if start is not None else _proven(answer)[0]


def _rounded_down(answer: Answer) -> int:
    end = answer.figures.leads_until
    return _floor(end) if end is not None else _proven(answer)[-1]


def _proven(answer: Answer) -> tuple[int, ...]:
    pairs = zip(answer.levels, answer.labels, strict=True)
    return tuple(level for level, label in pairs if label == answer.verdict.x) or (0,)


def _switch(problem: Problem, answer: Answer, x: Side) -> str:
    """A up to the start of the tie band, B from its end, either between."""
    figures = answer.figures
    low, high = figures.tie_band or (None, None)
    first, last = figures.proven_between or (0, 0)
    upto = _floor(low) if low is not None else first
    onward = _ceil(high) if high is not None else last
    advice = f"use {problem.engine(x)} up to {upto}, {problem.engine(other(x))} from {onward}"
    if figures.crossover is None or onward - upto < 2:
        return advice
    return f"{advice}, either between"


def _excluded(problem: Problem, answer: Answer) -> str:
    if answer.figures.excluded is None:
        return ""
    for_a, for_b = (percent(share) for share in answer.figures.excluded)
    return f" (the lead is at most {for_a} for {problem.engine_a}, {for_b} for {problem.engine_b})"


def _changes(problem: Problem, answer: Answer) -> Iterator[str]:
    for crossing in answer.crossings:
        winner = problem.engine_b if crossing.direction == "A_TO_B" else problem.engine_a
        low, high = crossing.bracket
        c = crossing.concurrency
        yield f"to {winner} " + (f"between {low} and {high}" if c is None else f"at {rounded(c)}")
    if answer.capacity_crossover and answer.verdict.kind is Kind.MULTIPLE_CROSSINGS:
        last_ok, _ = answer.capacity_crossover
        limited = answer.capacity.limited if answer.capacity else "both"
        if limited != "both":
            yield f"to {problem.engine(other(limited))} by memory above {last_ok}"


def _floor(level: float) -> int:
    # An end that is a whole level but for rounding is that level.
    return math.floor(level + 1e-9)


def _ceil(level: float) -> int:
    return math.ceil(level - 1e-9)


def _at(prefix: str, level: float | None) -> str:
    return "" if level is None else f"{prefix}{rounded(level)}"
