"""In which order a sweep visits its contenders and their levels."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CAPTURE_STEPS = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))
"""Batch sizes for which vLLM captures CUDA graphs; a batch is padded up to the next one
(vllm-project/vllm, config/vllm.py)."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One start of one contender's engine: positions in the plan, and the session from 1."""

    contender: int
    session: int


def visits(contenders: int, sessions: int) -> tuple[Visit, ...]:
    """AB, BA, AB: what drifts with time does not favour the first."""
    positions = range(contenders)
    return tuple(
        Visit(contender, session)
        for session in range(1, sessions + 1)
        for contender in (positions if session % 2 else reversed(positions))
    )


def level_order(levels: Sequence[int], seed: int, session: int) -> tuple[int, ...]:
    """The levels of a session, shuffled; the same for every contender, another each session."""
    order = list(levels)
    random.Random(f"order/{seed}/{session}").shuffle(order)  # noqa: S311 - an order, not keys
    return tuple(order)


Curve = dict[int, "float | None"]
"""A contender's figure by level; ``None`` where it has none that counts."""


def inside_brackets(curves: Iterable[Curve], *, steps: Sequence[int] = ()) -> tuple[int, ...]:
    """Further levels that narrow each crossing of two curves.

    Args:
        curves: One figure per contender and level, higher is better.
        steps: Batch sizes at which an engine changes its way of working: within a bracket, the
            levels on either side of a step are added too.
    """
    known = list(curves)
    found: set[int] = set()
    for position, a in enumerate(known):
        for b in known[position + 1 :]:
            for low, high in _brackets(a, b):
                found |= {_middle(low, high)}
                for step in steps:
                    found |= {step, step + 1} if low < step < high else set()
    measured = {level for curve in known for level in curve}
    return tuple(sorted(found - measured))


def _brackets(
    a: Mapping[int, float | None], b: Mapping[int, float | None]
) -> list[tuple[int, int]]:
    """Neighbouring levels between which the lead changes hands, with room in between."""
    leads = []
    for level in sorted(a.keys() & b.keys()):
        mine, other = a[level], b[level]
        if mine and other:
            leads.append((level, mine > other))
    return [
        (low, high)
        for (low, before), (high, after) in pairwise(leads)
        if before is not after and high - low > 1
    ]


def _middle(low: int, high: int) -> int:
    """In the middle on the axis of comparisons, which is log2 concurrency."""
    return min(high - 1, max(low + 1, round(2 ** ((log2(low) + log2(high)) / 2))))
