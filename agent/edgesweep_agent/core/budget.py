"""Whether the next level still fits into the time budget, judged by the levels before it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LevelCost:
    """What a finished level took: requests measured and warmed up, and wall seconds."""

    concurrency: int
    requests: int
    seconds: float


def expected_s(done: LevelCost | None, concurrency: int, requests: int) -> float:
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
