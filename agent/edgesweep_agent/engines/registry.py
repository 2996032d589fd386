"""The engines, in the order in which they are asked; the last one knows them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .llamacpp import LlamaCpp
from .openai import OpenAI

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers

    from .base import Engine, Facts

ENGINES: dict[str, Engine] = {"llama.cpp": LlamaCpp(), "unknown": OpenAI()}

PATHS = tuple(dict.fromkeys(path for engine in ENGINES.values() for path in engine.paths))
"""What to fetch to tell them apart."""


def recognise(answers: Answers) -> tuple[Engine, Facts]:
    """The engine behind the answers; ``unknown`` when none says so for certain."""
    for engine in ENGINES.values():
        facts = engine.recognise(answers)
        if facts is not None:
            return engine, facts
    raise AssertionError("the last adapter recognises every server")
