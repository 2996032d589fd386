"""Whether what an answered request says of its own end and length can be.

Both are wrong numbers that look good: a stream that falls silent after its last text has a fine
TPOT and a fine end-to-end latency, whatever its rate; a count that is too low is fewer tokens
than the text had.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgesweep.records import Sample

_SECOND_NS = 1_000_000_000

LATE_END_MIN_S = 0.1
"""What may lie between the last text and the end for no fault of the engine: a delayed TCP
acknowledgement (40 ms), and the 50 ms that the load generator waits for the end of a message."""
LATE_END_SHARE = 0.10
"""Of the time from the first text to the end: TPOT is too low by this much."""
LATE_END_STEPS = 8
"""Tokens without text at the end of an answer: the end token, and the tags and brackets that close
a tool call or a thought. In one of 24 answers of ``agent-8x`` llama.cpp held back six of 37. Never
more than the answer has and one, which some engines leave out."""
LATE_END_GAPS = 2
"""Likewise in gaps between text: a step of speculative decoding brings many tokens, and the last
one may bring the end token alone."""
UNCOUNTED_MIN = 2
"""Chunks beyond the count: engines differ by the end token, and flush held text in a chunk of its
own. Three are caught."""
UNCOUNTED_SHARE = 0.05
"""Of the count; a part of a tool call may bring two chunks for one token. From 60 tokens on this
is the bound: 128 tokens with 135 chunks are caught."""


def ends_late(sample: Sample) -> bool:
    """The stream went on for too long after its last text: its latencies say less than it took.

    A token's time is the mean from the first text to the end, and no longer than the first token
    took: where the text came before its time, the gaps between its chunks say nothing.
    """
    if not sample.text_ns:
        return False
    end_ns = sample.t_end_ns - sample.t_send_ns
    first_ns, last_ns = sample.text_ns[0], sample.text_ns[-1]
    tokens = sample.output_tokens or 1
    step_ns = min((end_ns - first_ns) / max(1, tokens - 1), first_ns)
    bound_ns = max(
        LATE_END_MIN_S * _SECOND_NS,
        LATE_END_SHARE * (end_ns - first_ns),
        min(LATE_END_STEPS, tokens + 1) * step_ns,
        LATE_END_GAPS * _median_gap_ns(sample.text_ns),
    )
    return end_ns - last_ns > bound_ns


def is_undercounted(sample: Sample) -> bool:
    """More chunks of text than tokens: each has one at least, with every engine that streams."""
    tokens = sample.output_tokens
    if tokens is None:
        return False
    return sample.chunks - tokens > max(UNCOUNTED_MIN, UNCOUNTED_SHARE * tokens)


def _median_gap_ns(text_ns: tuple[int, ...]) -> float:
    """Between the instants at which text came; 0 if there is but one."""
    instants = sorted(set(text_ns))
    return median([b - a for a, b in pairwise(instants)]) if len(instants) > 1 else 0.0
