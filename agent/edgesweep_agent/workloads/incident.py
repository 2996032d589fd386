"""Incident: a fault, three tools asked at once, their results summed up, then the join.

All requests of an incident share the fault's description, as they do where it comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_agent.core.arrangement import TASK, Arrangement, Part

from . import tasks
from .base import Track
from .draft import Draft, Request, Texts, TrackDraft

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .base import Level


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of so many requests at once, with their lengths as multiples of the workload's."""

    name: str
    requests: int
    prompts: float
    outputs: float
    says: str


STAGES = (
    Stage("fault", 1, 1, 1, "Say what may be wrong."),
    Stage("tools", 3, 1, 0.5, "Say what to ask this tool."),
    Stage("summaries", 3, 2, 1, "Sum up what the tool has found."),
    Stage("join", 1, 3, 1, "Say what to do, from these summaries."),
)
REQUESTS = sum(stage.requests for stage in STAGES)


def draft(level: Level) -> Draft:
    """Incidents, as many at once as the level says; each has up to three requests in flight."""
    texts = Texts(level)
    numbers = range(1, tasks.count(level, REQUESTS) + 1)
    tracks = tuple(track for number in numbers for track in _incident(level, texts, number))
    warmup = tuple(_warm(level, texts) for _ in range(level.warmup_requests))
    arrangement = Arrangement(window="task", steps=tuple(stage.name for stage in STAGES))
    return Draft(texts.wanted, tracks, warmup, level.concurrency, arrangement)


def _incident(level: Level, texts: Texts, number: int) -> Iterator[TrackDraft]:
    fault = texts.add(level.shape.prompt_tokens)
    after = tasks.predecessor(level, number, STAGES[-1].name)
    for stage in STAGES:
        name = Part(number, TASK, stage.name).name
        requests = tuple(_request(level, texts, stage, fault) for _ in range(stage.requests))
        yield TrackDraft(Track(name, concurrency=stage.requests, after=after), requests)
        after = name


def _request(level: Level, texts: Texts, stage: Stage, fault: int) -> Request:
    shape = level.shape
    own = () if stage is STAGES[0] else (texts.add(round(stage.prompts * shape.prompt_tokens)),)
    tokens = max(1, round(stage.outputs * shape.output_tokens))
    return Request((fault, *own, stage.says), tokens, f"{level.seed}/{fault}")


def _warm(level: Level, texts: Texts) -> Request:
    return _request(level, texts, STAGES[-1], texts.add(level.shape.prompt_tokens))
