"""Inclusive ranges of sequence numbers: what is left of them without others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgesweep.events import Ranges


def without(first: int, last: int, taken: Iterable[tuple[int, int]]) -> Ranges:
    """``first`` to ``last`` less the ranges ``taken``, which ascend."""
    left = []
    for start, end in taken:
        if start > first:
            left.append((first, min(start - 1, last)))
        first = max(first, end + 1)
        if first > last:
            return tuple(left)
    return (*left, (first, last)) if first <= last else tuple(left)
