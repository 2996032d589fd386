"""Interference: what a load that comes and goes does to the one that was there first.

The phases are told by the newcomer's own requests: from its first send to its last end. Instants
are monotonic nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from edgesweep.quantiles import quantile

from .window import Window, whole_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from edgesweep.records import Sample

RECOVERED = 1.1
"""A session has recovered when its TPOT is at most so many times what it was before."""
RUN_TOKENS = 8
"""Tokens in a row by which a recovery is told: one fast token is none."""

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Gap:
    """Time between two chunks of one answer, and the tokens that the second one brought."""

    start_ns: int
    end_ns: int
    tokens: float


def interference(samples: Sequence[Sample], resident: str, newcomer: str) -> dict[str, float]:
    """The metrics of interference, by their registered names.

    An answer that spans phases is told by the tokens that it got in each. A median needs as many
    answers as any other (:mod:`edgesweep.quantiles`).

    Args:
        samples: All of the level.
        resident: Part of the load that was there first.
        newcomer: Part that came and went.
    """
    there = [sample for sample in samples if sample.part == resident and sample.ok]
    during = during_window(samples, newcomer)
    if during is None or not there:
        return {}
    before = _tpot_s(there, Window(min(s.t_send_ns for s in there), during.start_ns))
    after = Window(during.end_ns, max(s.t_end_ns for s in there))
    arrived = [s.ttft_s for s in samples if s.part == newcomer and s.ok and s.ttft_s is not None]
    found = {
        "tpot_before_s": before,
        "tpot_during_s": _tpot_s(there, during),
        "tpot_after_s": _tpot_s(there, after),
        "stall_max_s": _stall_max_s(there, during),
        "recovery_s": None if before is None else _recovery_s(there, during.end_ns, before),
        "newcomer_ttft_s": quantile(sorted(arrived), 0.5),
    }
    return {name: value for name, value in found.items() if value is not None}


def during_window(samples: Iterable[Sample], newcomer: str) -> Window | None:
    """First send to last end of the newcomer's requests."""
    return whole_window(sample for sample in samples if sample.part == newcomer)


def _tpot_s(there: Iterable[Sample], phase: Window) -> float | None:
    """Median over the answers of their seconds per token within the phase."""
    each = []
    for sample in there:
        gaps = [gap for gap in _gaps(sample) if phase.holds(gap.end_ns)]
        tokens = sum(gap.tokens for gap in gaps)
        if tokens:
            each.append(_seconds(gaps) / tokens)
    return quantile(sorted(each), 0.5)


def _stall_max_s(there: Iterable[Sample], during: Window) -> float | None:
    """The longest gap that lies in the time of the other load, if only in part."""
    lengths = (
        gap.end_ns - gap.start_ns
        for sample in there
        for gap in _gaps(sample)
        if gap.end_ns > during.start_ns and gap.start_ns < during.end_ns
    )
    longest = max(lengths, default=None)
    return None if longest is None else longest / _SECOND_NS


def _recovery_s(there: Iterable[Sample], end_ns: int, before_s: float) -> float | None:
    """From the end of the other load to the first run of tokens as fast as before."""
    starts = (
        run[0].start_ns
        for sample in there
        for run in _runs([gap for gap in _gaps(sample) if gap.end_ns > end_ns])
        if _seconds(run) <= RECOVERED * before_s * sum(gap.tokens for gap in run)
    )
    first = min(starts, default=None)
    return None if first is None else max(0, first - end_ns) / _SECOND_NS


def _runs(gaps: Sequence[_Gap]) -> Iterator[Sequence[_Gap]]:
    return (gaps[i : i + RUN_TOKENS] for i in range(len(gaps) - RUN_TOKENS + 1))


def _gaps(sample: Sample) -> Iterator[_Gap]:
    """Gaps between the chunks; tokens are spread evenly, TPOT's own count being one less."""
    chunks = len(sample.text_ns) - 1
    tokens = max(0, (sample.output_tokens or 0) - 1) / max(1, chunks)
    instants = (sample.t_send_ns + offset_ns for offset_ns in sample.text_ns)
    return (_Gap(start_ns, end_ns, tokens) for start_ns, end_ns in pairwise(instants))


def _seconds(gaps: Iterable[_Gap]) -> float:
    return sum(gap.end_ns - gap.start_ns for gap in gaps) / _SECOND_NS
