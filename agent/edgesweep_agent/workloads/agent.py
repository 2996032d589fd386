"""Agent: serial tool calls with growing context, each answer one JSON object, natural stops."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from edgesweep_agent.core.arrangement import Arrangement
from edgesweep_agent.core.tool_schema import TOOLS, call_schema, response_format

from . import tasks
from .draft import Draft, Request, Texts

if TYPE_CHECKING:
    from .base import Level

STEPS = tuple(f"call {number}" for number in range(1, 9))

_TASK = (
    "These are the notes of a fault report. You are the maintenance agent of the plant. Find out "
    "what is wrong. Your tools: "
    + "; ".join(f"{tool.name}: {tool.description}" for tool in TOOLS)
    + " Answer with nothing but one JSON object, the next tool call, that fits this JSON schema: "
    + json.dumps(call_schema())
)
_RESULT = "That was the tool's result. Answer with the next tool call."


def draft(level: Level) -> Draft:
    """Conversations of eight tool calls, as many at once as the level says."""
    texts = Texts(level)
    chains = [_chain(level, texts) for _ in range(tasks.count(level, len(STEPS)))]
    warmup = tuple(_whole(level, texts) for _ in range(level.warmup_requests))
    return Draft(
        texts.wanted,
        tasks.chained(level, chains),
        warmup,
        level.concurrency,
        Arrangement(window="task", steps=STEPS, tools=TOOLS),
    )


def _chain(level: Level, texts: Texts) -> tuple[Request, ...]:
    """One task. Its report comes first, so that it differs from all others from there on."""
    said = [texts.add(level.shape.prompt_tokens) for _ in STEPS]
    nonce = f"{level.seed}/{said[0]}"
    return tuple(
        _request(level, (text, _RESULT if step else _TASK), nonce) for step, text in enumerate(said)
    )


def _whole(level: Level, texts: Texts) -> Request:
    """A request as long as the last of a task, for the warm-up."""
    said = [texts.add(level.shape.prompt_tokens) for _ in STEPS]
    return _request(level, (*said, _TASK), f"{level.seed}/{said[0]}")


def _request(level: Level, parts: tuple[int | str, ...], nonce: str) -> Request:
    return Request(
        parts,
        level.shape.output_tokens,
        nonce,
        natural=True,
        response_format=response_format(TOOLS),
    )
