"""The engines, and which of them is behind a set of answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import gateways
from .jan import Jan
from .koboldcpp import KoboldCpp
from .llamacpp import LlamaCpp, LlamaCppRouter
from .llamafile import Llamafile
from .lmstudio import LmStudio
from .localai import LocalAi
from .ollama import Ollama
from .openai import OpenAI
from .sglang import SgLang
from .tgi import Tgi
from .vllm import VLlm

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers

    from .base import Engine, Facts

ENGINES: dict[str, Engine] = {
    "llama.cpp": LlamaCpp(),
    "llama.cpp router": LlamaCppRouter(),
    "vllm": VLlm(),
    "ollama": Ollama(),
    "lmstudio": LmStudio(),
    "jan": Jan(),
    "llamafile": Llamafile(),
    "sglang": SgLang(),
    "tgi": Tgi(),
    "localai": LocalAi(),
    "koboldcpp": KoboldCpp(),
    "unknown": OpenAI(),
}

PATHS = tuple(
    dict.fromkeys(
        path for paths in (gateways.PATHS, *(e.paths for e in ENGINES.values())) for path in paths
    )
)
"""What to fetch to tell them apart."""

_NAMED = ("named by the user",)


def recognise(
    answers: Answers, model: str | None = None, *, named: str | None = None
) -> tuple[Engine, Facts]:
    """The engine behind the answers; ``unknown`` unless exactly one of them is certain.

    Args:
        answers: What was answered to ``PATHS``, or to as many as there was an answer.
        model: Whose facts are asked for, where a server has several.
        named: The engine by its word in the registry, if the user knows: that wins.
    """
    key, evidence = _judged(answers) if named is None else (named, _NAMED)
    engine = ENGINES[key]
    return engine, replace(engine.facts(answers, model), evidence=evidence)


def _judged(answers: Answers) -> tuple[str, tuple[str, ...]]:
    claims = {key: engine.claim(answers) for key, engine in ENGINES.items() if key != "unknown"}
    holding = {key for key, claim in claims.items() if claim.holds}
    copied = {copy for key in holding for copy in ENGINES[key].emulates}
    (*found,) = holding - copied
    between = gateways.signs(answers)
    if len(found) == 1 and not between:
        return found[0], claims[found[0]].evidence
    partial = [
        text for key, claim in claims.items() if key not in copied for text in claim.evidence
    ]
    several = (f"but these are signs of {', '.join(sorted(found))}",) if len(found) > 1 else ()
    behind = (f"a gateway: {text}" for text in between)
    listing = () if partial else ENGINES["unknown"].claim(answers).evidence
    return "unknown", (*behind, *partial, *several, *listing)
