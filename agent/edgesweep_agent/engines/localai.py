"""LocalAI (mudler/LocalAI): llama.cpp, vLLM and others behind one address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.answers import models_of, object_at, version_of

from .base import Adapter, Claim, Facts

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers

_WELL_KNOWN = "/.well-known/localai.json"


class LocalAi(Adapter):
    """Recognised by its discovery document; its ``/version`` has the shape of vLLM's."""

    name = "localai"
    paths = ("/v1/models", _WELL_KNOWN, "/version")
    emulates = ("ollama",)

    def claim(self, answers: Answers) -> Claim:
        """The document with a version or its addresses in it."""
        document = object_at(answers, _WELL_KNOWN)
        known = version_of(document.get("version")) or isinstance(document.get("endpoints"), dict)
        return Claim((_WELL_KNOWN,) if known else ())

    def facts(self, answers: Answers, model: str | None) -> Facts:  # noqa: ARG002 - nothing told
        """Slots and context are its backend's, which it does not tell."""
        version = version_of(object_at(answers, _WELL_KNOWN).get("version"))
        return Facts(
            engine=self.name,
            version=version or version_of(object_at(answers, "/version").get("version")),
            models=models_of(answers),
        )
