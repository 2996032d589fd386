"""The named request shapes, by the names that go into every record, and what arranges each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgesweep.quantiles import FLOORS

from . import agent, chat, fanout, incident, interference, natural, pipeline, replay
from .shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from .base import Level
    from .draft import Draft

DRAFTS: dict[str, Callable[[Level], Draft]] = {
    "chat": chat.draft,
    "natural": natural.draft,
    "fanout": fanout.draft,
    "agent": agent.draft,
    "pipeline": pipeline.draft,
    "incident": incident.draft,
    "interference-operator": interference.operator_arrives,
    "interference-fanout": interference.fanout_arrives,
    "replay": replay.draft,
}
"""What arranges the requests of a level, by ``Shape.kind``."""

SHARING = frozenset(DRAFTS) - {"chat", "natural"}
"""Kinds whose requests share openings on purpose: tokens from a cache are no fault there."""

_NAMED = (
    (Shape(64, 32, "chat-64-32"), "short questions, short answers: a quick look"),
    (Shape(128, 256, "chat-128-256"), "short questions, long answers"),
    (Shape(512, 128, "chat-512-128"), "the usual chat"),
    (
        Shape(512, 128, "chat-natural-512-128", kind="natural"),
        "readable English that stops where it likes: for speculative decoding",
    ),
    (Shape(4096, 256, "rag-4096-256"), "answers from long documents"),
    (Shape(1024, 128, "ctx-1k"), "context as an axis: 1024 tokens"),
    (Shape(4096, 128, "ctx-4k"), "context as an axis: 4096 tokens"),
    (Shape(8192, 128, "ctx-8k"), "context as an axis: 8192 tokens"),
    (
        Shape(256, 128, "fanout-2048+256-128", kind="fanout", shared_tokens=2048),
        "requests at once that share an opening, then a join; cold and warm",
    ),
    (Shape(256, 96, "agent-8x", kind="agent"), "eight tool calls one after another"),
    (
        Shape(256, 128, "pipeline", kind="pipeline"),
        "planner, architect, developer, qa: the slowest step is named",
    ),
    (
        Shape(256, 128, "incident", kind="incident"),
        "a fault, three tools at once, their summaries, the join",
    ),
    (
        Shape(256, 128, "interference-operator", kind="interference-operator", shared_tokens=1024),
        "an operator arrives while a fan-out runs",
    ),
    (
        Shape(256, 128, "interference-fanout", kind="interference-fanout", shared_tokens=1024),
        "a fan-out starts while an operator is at work",
    ),
)

WORKLOADS: dict[str, Shape] = {shape.name: shape for shape, _ in _NAMED}
"""Those that need nothing but their name; ``replay`` needs a file."""

MEANINGS: dict[str, str] = {
    **{shape.name: meaning for shape, meaning in _NAMED},
    "replay": "your own prompts, from a file of JSON lines or ShareGPT's conversations",
}
"""What each is, in a line, for people who choose."""

QUICK = WORKLOADS["chat-64-32"]
"""What is measured when nobody says: small enough to climb a few levels in two minutes."""


def enough(shape: Shape, concurrency: int, requests: int) -> int:
    """Requests with which the workload's own medians can be stated: of bursts, of tasks."""
    each = {
        "fanout": 2 * (concurrency + 1),
        "agent": len(agent.STEPS),
        "pipeline": len(pipeline.ROLES),
        "incident": incident.REQUESTS,
    }.get(shape.kind)
    return requests if each is None else max(requests, FLOORS[0.5] * each)


def draft(level: Level) -> Draft:
    """Arrange a level as its shape wants it.

    Two workloads of one session have no text in common, although their levels have one seed.
    """
    seed = f"{level.shape.workload().name}/{level.seed}"
    return DRAFTS[level.shape.kind](replace(level, seed=seed))
