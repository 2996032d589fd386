"""Ollama (ollama/ollama)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgesweep_agent.core.answers import (
    NO_REPLY,
    dict_in,
    models_of,
    object_at,
    objects_in,
    owners_of,
    positive,
    text_of,
    version_of,
)

from .base import Adapter, Claim, Facts

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers


class Ollama(Adapter):
    """Recognised by ``/api/version`` together with what only it answers.

    It serves one request at a time unless ``OLLAMA_NUM_PARALLEL`` says otherwise, which no
    address tells. It has no ``ignore_eos`` (ollama/ollama#12065) and counts nothing.
    """

    name = "ollama"
    paths = ("/v1/models", "/", "/api/version", "/api/ps", "/api/tags")

    def claim(self, answers: Answers) -> Claim:
        """Others have its version's address: a second sign has to come with it."""
        version = version_of(object_at(answers, "/api/version").get("version"))
        if not version:
            return Claim()
        more = []
        if answers.get("/", NO_REPLY).text.strip() == "Ollama is running":
            more.append("/ Ollama is running")
        if "library" in owners_of(answers):
            more.append("/v1/models owned_by library")
        if any("digest" in entry for entry in _entries(answers, "/api/tags")):
            more.append("/api/tags with digests")
        against = () if more else ("nothing else of Ollama's",)
        return Claim((f"/api/version {version}", *more), against)

    def facts(self, answers: Answers, model: str | None) -> Facts:
        """Those of a loaded model: it loads one when it is asked for, and forgets it later.

        ``context_length`` is that of one request, whatever the number in parallel.
        """
        loaded = _entry(answers, "/api/ps", model)
        known = loaded or _entry(answers, "/api/tags", model)
        return Facts(
            engine=self.name,
            version=version_of(object_at(answers, "/api/version").get("version")),
            models=models_of(answers),
            weight_format=text_of(dict_in(known.get("details")).get("quantization_level")),
            context_per_request=positive(loaded.get("context_length")),
            hint="" if loaded else "the model is not loaded: its context is told once it is",
        )


def _entries(answers: Answers, path: str) -> list[dict[str, Any]]:
    return objects_in(object_at(answers, path).get("models"))


def _entry(answers: Answers, path: str, model: str | None) -> dict[str, Any]:
    entries = _entries(answers, path)
    if model is None:
        return entries[0] if len(entries) == 1 else {}
    named = (entry for entry in entries if model in (entry.get("model"), entry.get("name")))
    return next(named, {})
