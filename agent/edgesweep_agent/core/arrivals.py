"""When the requests of an open loop are due, whatever is in flight."""

from __future__ import annotations

import random
from itertools import accumulate


def poisson_offsets(seed: str, n: int, rate_per_s: float) -> tuple[float, ...]:
    """Seconds from the start at which each of ``n`` requests is due: a Poisson process.

    The gaps are left as they were drawn. vLLM's client rescales them until the last request is
    due at n / rate (vllm/benchmarks/serve.py, ``get_request``): that is no Poisson process any
    more, and hides the bursts that an open loop is measured for.

    Args:
        seed: Of run, session and level; without the contender, so that all get the same.
        n: How many.
        rate_per_s: Of all users together, above 0.
    """
    rng = random.Random(f"{seed}/arrivals")  # noqa: S311 - instants, not keys
    return tuple(accumulate(rng.expovariate(rate_per_s) for _ in range(n)))
