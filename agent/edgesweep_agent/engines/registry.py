"""The engines, in the order in which they are asked; the last one knows them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import xllamacpp
from .llamacpp import LlamaCpp
from .openai import OpenAI

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep_agent.core.answers import Answers
    from edgesweep_agent.plan import ManagedSpec

    from .base import Engine, Facts

ENGINES: dict[str, Engine] = {"llama.cpp": LlamaCpp(), "unknown": OpenAI()}

COMMANDS: dict[str, Callable[[ManagedSpec, int], list[str]]] = {"xllamacpp": xllamacpp.command}
"""How to serve a managed contender on a port, by the server's name in a plan."""

VERSIONS: dict[str, Callable[[], str]] = {"xllamacpp": xllamacpp.server_version}
"""What a managed server's own package says its version is."""

PATHS = tuple(dict.fromkeys(path for engine in ENGINES.values() for path in engine.paths))
"""What to fetch to tell them apart."""


def recognise(answers: Answers) -> tuple[Engine, Facts]:
    """The engine behind the answers; ``unknown`` when none says so for certain."""
    for engine in ENGINES.values():
        facts = engine.recognise(answers)
        if facts is not None:
            return engine, facts
    raise AssertionError("the last adapter recognises every server")
