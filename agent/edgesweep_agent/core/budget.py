"""Whether the next level still fits into the time budget, judged by the levels before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep.durations import duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .pace import Pace

_MARGIN = 1.1
"""A budget that is told should do, though what it was reckoned from varies."""
_FEWEST = 3
SHORTER = (16, 8)
"""Lengths of answers to fall back on."""
WARMUP_BURSTS = 2
"""As few as can agree: warm-up of a level that is yet to come."""


@dataclass(frozen=True, slots=True)
class LevelCost:
    """What a level took: requests that were answered, warm-up included, and wall seconds.

    Of one that was cut, those under way count by what was done of them.
    """

    concurrency: int
    requests: float
    seconds: float


def expected_s(done: LevelCost | None, concurrency: int, requests: float) -> float:
    """Wall seconds that the next level should take, from the last one of the same contender.

    Throughput is taken to stay as it is: an engine that batches will be faster, one that is
    at its limit will not. Without a level before it nothing is known, and 0 is answered.
    """
    if done is None or done.requests == 0 or concurrency < 1:
        return 0.0
    return done.seconds / done.requests * requests


def fits(elapsed_s: float, budget_s: float | None, needed_s: float) -> bool:
    """Whether a level that needs ``needed_s`` may still begin."""
    return budget_s is None or (elapsed_s < budget_s and elapsed_s + needed_s <= budget_s)


def nearest(costs: Mapping[int, LevelCost], concurrency: int) -> LevelCost | None:
    """Of what levels took, by concurrency, the one that says most about another.

    The lower one of two that are as near: it has measured the rate that a higher one starts from.
    """
    return min(
        (costs[level] for level in sorted(costs) if costs[level].requests),
        key=lambda cost: abs(math.log(cost.concurrency / concurrency)),
        default=None,
    )


def remaining_s(done: LevelCost, planned: float) -> float | None:
    """Wall seconds for the rest of ``planned`` requests at the rate of those that have ended.

    ``None`` before the first one has ended: nothing is known.
    """
    if not done.requests:
        return None
    return expected_s(done, done.concurrency, max(0.0, planned - done.requests))


def more_time(needed_s: float, left_s: float, budget_s: float, *, at_least: bool = False) -> str:
    """What a level lacks that the budget leaves no time for, and the budget that has it.

    Args:
        needed_s: Of the level, and of those before it that are left out as well.
        left_s: Of the budget.
        budget_s: The whole of it.
        at_least: It is not known of all of them what they need.
    """
    more_s = max(1.0, needed_s - left_s)
    about = "at least" if at_least else "about"
    enough = budget_option(budget_s + more_s * _MARGIN)
    return f"needs {about} {duration_text(more_s)} more: --budget {enough}"


def smaller(
    pace: Pace,
    room_s: float,
    concurrency: int,
    *,
    requests: int,
    tokens: int,
    shorter: Sequence[int] = SHORTER,
) -> tuple[int, int] | None:
    """Requests and output tokens of the nearest smaller level that goes into some time.

    Shorter answers come first: fewer requests than eleven have no medians.

    Returns:
        ``None`` if not even the smallest does.
    """
    few = min(requests, max(_FEWEST, concurrency))
    lengths = [length for length in shorter if length < tokens]
    choices = [
        *((requests, length) for length in lengths),
        (few, tokens),
        *((few, length) for length in lengths),
    ]
    for count, length in choices:
        bursts = WARMUP_BURSTS + count / concurrency
        if pace.request_s(length) * bursts * _MARGIN <= room_s:
            return count, length
    return None


def budget_option(seconds: float) -> str:
    """So much time, rounded up, as ``--budget`` takes it: ``90s``, ``6m``, ``2.5h``."""
    if seconds <= 90:
        return f"{math.ceil(seconds / 10) * 10}s"
    if seconds <= 90 * 60:
        return f"{math.ceil(seconds / 60)}m"
    return f"{math.ceil(seconds / 1800) / 2:g}h"
