"""What a plan will do and how long that may take, before anything is started."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgesweep.records import Workload

ASSUMED_TOKENS_PER_S = 20.0
"""Output rate of one stream: an 8 GB module with a small model, within a factor of three."""
_MOST_STREAMS = 4
"""Batching pays off up to here, as far as a guess goes; further streams share the rate of these."""
_PROMPT_SPEEDUP = 8.0
"""Prompt tokens are worked off in batches, several times as fast as output tokens come."""
_START_S = 60.0
"""An engine's start, warm or cold, as far as a guess goes."""
_WARMUP_BURSTS = 3


@dataclass(frozen=True, slots=True)
class LevelPreview:
    """One level of one workload: how many requests, and seconds each time it is measured."""

    workload: str
    concurrency: int
    requests: int
    most_requests: int
    seconds: float
    most_seconds: float


@dataclass(frozen=True, slots=True)
class Preview:
    """The whole of it.

    Attributes:
        engine_starts: Of managed engines.
        seconds: Levels, starts, warm-up and scout together; ``most_seconds`` if no level ends
            early by its precision.
    """

    levels: tuple[LevelPreview, ...]
    engine_starts: int
    seconds: float
    most_seconds: float


def preview(
    workloads: Sequence[Workload],
    requests: Mapping[tuple[str, int], tuple[int, int]],
    *,
    contenders: int,
    sessions: int,
    engine_starts: int,
    scouts: bool,
    rates: Mapping[str, float] | None = None,
) -> Preview:
    """Reckon the plan through.

    Args:
        workloads: Measured at every level.
        requests: By workload and level: the fewest and the most measured requests.
        contenders: Each measures everything, each session.
        sessions: Engine starts per contender.
        engine_starts: Of managed engines, in all.
        scouts: An ascending pass of one burst a level comes first.
        rates: Of open loops, requests per user and second, by workload.
    """
    levels = tuple(
        _level(workload, concurrency, least, most, (rates or {}).get(name))
        for workload in workloads
        for (name, concurrency), (least, most) in requests.items()
        if name == workload.name
    )
    fixed = engine_starts * _START_S
    if scouts:
        fixed += contenders * fsum(
            _burst_s(w, c) for w in workloads for name, c in requests if name == w.name
        )
    times = contenders * sessions
    return Preview(
        levels,
        engine_starts,
        fixed + times * fsum(level.seconds for level in levels),
        fixed + times * fsum(level.most_seconds for level in levels),
    )


def _level(
    workload: Workload, concurrency: int, least: int, most: int, rate: float | None
) -> LevelPreview:
    one = _burst_s(workload, concurrency) / concurrency
    warm_s = _WARMUP_BURSTS * concurrency * one
    if rate is not None:
        one = max(one, 1 / (rate * concurrency))
    return LevelPreview(
        workload.name, concurrency, least, most, warm_s + least * one, warm_s + most * one
    )


def _burst_s(workload: Workload, concurrency: int) -> float:
    """Seconds of ``concurrency`` requests at once."""
    rate = ASSUMED_TOKENS_PER_S * min(concurrency, _MOST_STREAMS)
    prompt_s = workload.prompt_tokens / (ASSUMED_TOKENS_PER_S * _PROMPT_SPEEDUP)
    return concurrency * (workload.output_tokens / rate + prompt_s)
