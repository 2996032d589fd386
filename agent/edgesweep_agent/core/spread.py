"""Output lengths that differ, so that requests do not lock into waves, around an exact mean."""

from __future__ import annotations

import random
from itertools import chain


def output_lengths(seed: str, n: int, mean: int, spread: float) -> tuple[int, ...]:
    """Tokens to ask for, request by request: the same for whoever is measured with this seed.

    The deviations are stratified: one from each of n/2 equal parts of the range, each used once
    up and once down, next to each other. The mean is therefore met exactly, and a level that
    ends early has met it within one pair.

    Args:
        seed: Of run, session and level; without the contender, so that all get the same.
        n: How many.
        mean: In tokens, at least 1.
        spread: Largest deviation as a share of the mean, from 0 to under 1.
    """
    rng = random.Random(f"{seed}/lengths")  # noqa: S311 - lengths, not keys
    pairs = n // 2
    deviations = [int(spread * mean * (k + rng.random()) / pairs) for k in range(pairs)]
    rng.shuffle(deviations)
    lengths = chain.from_iterable(
        (mean + sign * deviation, mean - sign * deviation)
        for deviation in deviations
        for sign in (rng.choice((1, -1)),)
    )
    return (*lengths, *[mean] * (n % 2))
