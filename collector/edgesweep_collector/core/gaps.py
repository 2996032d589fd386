"""Which sequence numbers are missing: ranges of those that are settled, and what lies between.

A number is settled when its record is archived, or when the device said that it never will be.
Settled numbers are kept as few ranges, which grow and merge; nothing is ever counted anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgesweep.events import Ranges

FIRST_SEQ = 1
"""What the numbers of every epoch begin with."""


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from ``first`` to ``last``, both inclusive.

    Attributes:
        since_ns: Of settled ones: since when something below them is known to be missing. Of
            missing ones: since when they are.
    """

    first: int
    last: int
    since_ns: int

    @property
    def n(self) -> int:
        """How many."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Merged:
    """What has to be changed among the settled spans: write these, delete those that begin so."""

    written: tuple[Span, ...]
    deleted: tuple[int, ...]


def merge(near: Sequence[Span], new: Iterable[tuple[int, int]], now_ns: int) -> Merged:
    """Add numbers to settled spans.

    Args:
        near: The settled spans from the last one that begins before the new ones to the first
            one that begins after them; ascending. Others are not touched.
        new: Ranges that are settled now, in any order.
        now_ns: Since when gaps that they open are known.
    """
    found: list[_Open] = []
    held = (_Open(span.first, span.last, span.since_ns) for span in near)
    opened = (_Open(first, last) for first, last in new)
    for span in sorted((*held, *opened), key=lambda span: span.first):
        if found and span.first <= found[-1].last + 1:
            below = found[-1]
            below.last = max(below.last, span.last)
            # Of a gap that was known before, what is left of it is known as long.
            below.since_ns = span.since_ns if below.since_ns is None else below.since_ns
        else:
            found.append(span)
    since_ns = now_ns
    for span in reversed(found):
        since_ns = span.since_ns = since_ns if span.since_ns is None else span.since_ns
    merged = {Span(s.first, s.last, s.since_ns or 0) for s in found}
    firsts = {span.first for span in merged}
    return Merged(
        written=tuple(sorted(merged - set(near), key=lambda span: span.first)),
        deleted=tuple(span.first for span in near if span.first not in firsts),
    )


def missing(settled: Sequence[Span]) -> tuple[Span, ...]:
    """The gaps below the highest settled number; ``settled`` is ascending and merged."""
    gaps = []
    next_seq = FIRST_SEQ
    for span in settled:
        if span.first > next_seq:
            gaps.append(Span(next_seq, span.first - 1, span.since_ns))
        next_seq = max(next_seq, span.last + 1)
    return tuple(gaps)


def to_ask(gaps: Iterable[Span], asked: Iterable[tuple[int, int]], most: int) -> Ranges:
    """What of some gaps was not asked for lately, as ``most`` ranges at most, the lowest first."""
    lately = sorted(asked)
    found = [one for gap in gaps for one in _without(gap.first, gap.last, lately)]
    return tuple(sorted(found)[:most])


def _without(first: int, last: int, taken: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    for start, end in taken:
        if start > first and first <= last:
            yield first, min(start - 1, last)
        first = max(first, end + 1)
    if first <= last:
        yield first, last


@dataclass(slots=True)
class _Open:
    first: int
    last: int
    since_ns: int | None = None
