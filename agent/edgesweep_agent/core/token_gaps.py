"""Gaps between tokens, from the gaps between the chunks that brought them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECOND_NS = 1_000_000_000


def chunk_gaps(text_ns: Sequence[int]) -> tuple[float, ...]:
    """Seconds between text-bearing chunks."""
    return tuple([(b - a) / _SECOND_NS for a, b in pairwise(text_ns)])


def token_gaps(text_ns: Sequence[int], tokens: int, counts: Sequence[int]) -> tuple[float, ...]:
    """Seconds from token to token: each chunk's gap is shared by the tokens that it brought.

    The tokens of the first chunk have no gap. A chunk that completes no token (a character cut in
    two) passes its gap on to the next.

    Args:
        text_ns: Instants of the chunks.
        tokens: Tokens in all; spread evenly over the chunks where ``counts`` does not say better.
        counts: Tokens so far at each chunk, as continuous usage tells; empty otherwise.
    """
    chunks = len(text_ns)
    if len(counts) != chunks or any(b < a for a, b in pairwise(counts)):
        # The first chunk has at least one, the last brings the sum to ``tokens``.
        counts = [-(-number * tokens // chunks) for number in range(1, chunks + 1)]
    gaps: list[float] = []
    t_told_ns = text_ns[0] if chunks else 0
    for t_ns, (before, so_far) in zip(text_ns[1:], pairwise(counts), strict=True):
        if brought := so_far - before:
            gaps += [(t_ns - t_told_ns) / (brought * _SECOND_NS)] * brought
            t_told_ns = t_ns
    return tuple(gaps)
