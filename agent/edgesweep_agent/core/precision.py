"""Whether a level's throughput is known well enough to stop, from when its requests completed.

The method of batch means (Law, "Simulation Modeling and Analysis", 5th ed., 9.5.3): the steady
part is cut into ten batches of equally many completions, long enough that one batch hardly tells
of the next, and the spread of their throughputs gives Student's interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from edgesweep.student import t_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCHES = 10
_CONFIDENCE = 0.95
_SECOND_NS = 1_000_000_000

Completion = tuple[int, float]
"""When a request completed, in monotonic nanoseconds, and what it counts for (its tokens)."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """A throughput with its interval.

    Attributes:
        per_s: Weight a second over the batches.
        half_width: Of the 95 % interval, relative to ``per_s``.
    """

    per_s: float
    half_width: float


def settled(
    completions: Sequence[Completion], concurrency: int, *, half_width: float, floor: int
) -> bool:
    """Whether the throughput is known to within ``half_width`` of itself.

    Never before ``floor`` completions, however close they are: a quantile needs them.
    """
    if len(completions) < floor:
        return False
    known = throughput(completions, concurrency)
    return known is not None and known.half_width <= half_width


def throughput(completions: Sequence[Completion], concurrency: int) -> Throughput | None:
    """The steady throughput with its interval; ``None`` while there is too little for one.

    The first C completions are the opening wave and only mark the start. A batch has a multiple
    of C completions: answers of equal length end in waves of C, which no batch may cut, and each
    of the C workers weighs the same in every batch.

    Args:
        completions: In any order.
        concurrency: C, the requests in flight at once.
    """
    ordered = sorted(completions)
    size = (len(ordered) - concurrency) // BATCHES // concurrency * concurrency
    if size < 1:
        return None
    # The newest ones: what the opening left out of balance is longest ago.
    first = len(ordered) - BATCHES * size
    edges = [first + batch * size for batch in range(BATCHES + 1)]
    rates = []
    for start, end in pairwise(edges):
        seconds = (ordered[end - 1][0] - ordered[start - 1][0]) / _SECOND_NS
        if seconds <= 0:
            return None
        rates.append(sum(weight for _, weight in ordered[start:end]) / seconds)
    return _interval(rates)


def _interval(rates: Sequence[float]) -> Throughput | None:
    mean = sum(rates) / len(rates)
    if mean <= 0:
        return None
    deviations = [rate - mean for rate in rates]
    squares = sum(deviation * deviation for deviation in deviations)
    variance = squares / (len(rates) - 1) * _inflation(deviations, squares)
    t = t_quantile((1 + _CONFIDENCE) / 2, len(rates) - 1)
    return Throughput(mean, t * math.sqrt(variance / len(rates)) / mean)


def _inflation(deviations: Sequence[float], squares: float) -> float:
    """What neighbours that resemble each other take from ten batches, as a factor of variance.

    (1 + r) / (1 - r) for a first-order autoregressive series of lag-1 correlation r; a device
    that slows down as it warms looks like one. Batches that alternate are given nothing.
    """
    if squares <= 0:
        return 1.0
    r = max(0.0, sum(a * b for a, b in pairwise(deviations)) / squares)
    return (1 + r) / (1 - r)
