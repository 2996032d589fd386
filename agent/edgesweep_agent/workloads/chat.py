"""Chat: unrelated prompts, in a closed loop or arriving when they like.

Long contexts (``rag``, ``ctx``) are the same with longer prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.arrangement import Arrangement
from edgesweep_agent.core.arrivals import poisson_offsets
from edgesweep_agent.core.spread import output_lengths

from .base import Track
from .draft import Draft, Request, Texts, TrackDraft
from .words import prompt

if TYPE_CHECKING:
    from .base import Level
    from .draft import Prompter

__all__ = ["arriving", "draft", "lengths", "prompt", "unrelated"]


def draft(level: Level) -> Draft:
    """Requests that have nothing in common, with answers of seeded lengths."""
    return unrelated(level, prompt)


def unrelated(level: Level, prompter: Prompter, *, natural: bool = False) -> Draft:
    """Requests that have nothing in common.

    Args:
        level: What to arrange.
        prompter: What they say.
        natural: Answers stop where they like, and at the workload's length at the latest.
    """
    shape, texts = level.shape, Texts(level, prompter)

    def request(tokens: int) -> Request:
        position = texts.add(shape.prompt_tokens)
        return Request((position,), tokens, f"{level.seed}/{position}", natural=natural)

    limits = (shape.output_tokens,) * level.requests if natural else lengths(level, level.requests)
    measured = tuple(map(request, limits))
    # Equal ones, so that two bursts may agree.
    warmup = tuple(request(shape.output_tokens) for _ in range(level.warmup_requests))
    return arriving(level, texts, measured, warmup)


def arriving(
    level: Level, texts: Texts, measured: tuple[Request, ...], warmup: tuple[Request, ...]
) -> Draft:
    """Independent requests as the shape has them arrive."""
    track, window = Track(concurrency=level.concurrency), Arrangement()
    rate = level.shape.rate_per_user_per_s
    if rate is not None:
        due_s = poisson_offsets(level.seed, len(measured), rate * level.concurrency)
        track, window = Track(arrivals_s=due_s), Arrangement(window="open")
    tracks = (TrackDraft(track, measured),)
    return Draft(texts.wanted, tracks, warmup, level.concurrency, window)


def lengths(level: Level, n: int) -> tuple[int, ...]:
    """Output lengths of ``n`` requests: the shape's mean and spread."""
    return output_lengths(level.seed, n, level.shape.output_tokens, level.shape.spread)
