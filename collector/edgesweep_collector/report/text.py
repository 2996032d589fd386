"""An answer on a terminal: the sentence, then the evidence level by level."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from edgesweep_collector.core.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgesweep_collector.core.answer import Answer
    from edgesweep_collector.core.problem import Problem

_WIDTH = 88
_MEANING = {"A": "{a} ahead", "B": "{b} ahead", "T": "tie", "U": "unresolved"}


def render_text(problem: Problem, answer: Answer) -> str:
    """``answer`` in plain text, without colour, ending in a newline."""
    return "\n".join(_lines(problem, answer)) + "\n"


def _lines(problem: Problem, answer: Answer) -> Iterator[str]:
    heading = ": ".join(part for part in (problem.id, problem.title) if part)
    if heading:
        yield heading
    yield answer.verdict.name
    yield from textwrap.wrap(words(problem, answer), _WIDTH, break_on_hyphens=False)
    if answer.levels:
        yield ""
        yield from _table(problem, answer)
    if answer.flags:
        yield ""
        yield f"flags: {', '.join(flag.value for flag in answer.flags)}"


def _table(problem: Problem, answer: Answer) -> Iterator[str]:
    yield f"A is {problem.engine_a}, B is {problem.engine_b}"
    yield f"{'in flight':>9}  {'B over A':>9}  {'95 % interval':>18}  verdict at this level"
    for k, (level, label) in enumerate(zip(answer.levels, answer.labels, strict=True)):
        ratio, interval = _advantage(answer.log_ratio[k]), _interval(answer, k)
        meaning = _MEANING[label].format(a=problem.engine_a, b=problem.engine_b)
        yield f"{level:>9}  {ratio:>9}  {interval:>18}  {meaning}"


def _interval(answer: Answer, k: int) -> str:
    if answer.half_width is None:
        return "-"
    mean, half = answer.log_ratio[k], answer.half_width[k]
    return f"{_advantage(mean - half)} .. {_advantage(mean + half)}"


def _advantage(log_ratio: float) -> str:
    """B's advantage over A: a signed percentage, or a factor once it leaves that scale."""
    ratio = math.exp(min(log_ratio, 300.0))
    return f"{ratio * 100 - 100:+.1f} %" if ratio < 10 else f"x {ratio:.3g}"
