"""Pipeline: four roles one after another, each with a shape of its own on what came before.

Answers have fixed lengths: a contender that says less must not look faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_agent.core.arrangement import Arrangement

from . import tasks
from .draft import Draft, Request, Texts

if TYPE_CHECKING:
    from .base import Level


@dataclass(frozen=True, slots=True)
class Role:
    """A step, with its lengths as multiples of the workload's."""

    name: str
    prompts: float
    outputs: float


ROLES = (
    Role("planner", 1, 1),
    Role("architect", 2, 1),
    Role("developer", 2, 3),
    Role("qa", 1, 0.5),
)


def draft(level: Level) -> Draft:
    """Conversations of the four roles, as many at once as the level says."""
    texts = Texts(level)
    chains = [_chain(level, texts) for _ in range(tasks.count(level, len(ROLES)))]
    warmup = tuple(_whole(level, texts) for _ in range(level.warmup_requests))
    arrangement = Arrangement(window="task", steps=tuple(role.name for role in ROLES))
    return Draft(texts.wanted, tasks.chained(level, chains), warmup, level.concurrency, arrangement)


def _chain(level: Level, texts: Texts) -> tuple[Request, ...]:
    said = [_text(level, texts, role) for role in ROLES]
    nonce = f"{level.seed}/{said[0]}"
    return tuple(
        Request(
            (text, f"Now answer as the {role.name}."),
            max(1, round(role.outputs * level.shape.output_tokens)),
            nonce,
        )
        for role, text in zip(ROLES, said, strict=True)
    )


def _whole(level: Level, texts: Texts) -> Request:
    """A request as long as the last of a task, for the warm-up."""
    said = tuple(_text(level, texts, role) for role in ROLES)
    return Request(said, level.shape.output_tokens, f"{level.seed}/{said[0]}")


def _text(level: Level, texts: Texts, role: Role) -> int:
    return texts.add(round(role.prompts * level.shape.prompt_tokens))
