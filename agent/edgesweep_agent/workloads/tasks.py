"""Tasks: so many at once, each worker beginning its next one when its last has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.arrangement import TASK, Part

from .base import Track
from .draft import TrackDraft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .base import Level
    from .draft import Request

MIN_TASKS = 3


def count(level: Level, requests_each: int) -> int:
    """Tasks of a level: one for each worker at least, and whole ones."""
    return max(MIN_TASKS, level.concurrency, -(-level.requests // requests_each))


def chained(level: Level, chains: Sequence[tuple[Request, ...]]) -> tuple[TrackDraft, ...]:
    """Each conversation as a task of its own."""
    return tuple(
        TrackDraft(
            Track(Part(number, TASK).name, after=predecessor(level, number)), chains=(chain,)
        )
        for number, chain in enumerate(chains, 1)
    )


def predecessor(level: Level, number: int, last_step: str = "") -> str:
    """Name of the track that must have ended before task ``number`` (from 1) begins."""
    before = number - level.concurrency
    return Part(before, TASK, last_step).name if before > 0 else ""
