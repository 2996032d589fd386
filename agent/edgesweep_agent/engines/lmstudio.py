"""LM Studio (its REST API, lmstudio-ai/docs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgesweep_agent.core.answers import (
    dict_in,
    models_of,
    object_at,
    objects_in,
    positive,
    text_of,
)

from .base import Adapter, Claim, Facts

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers


class LmStudio(Adapter):
    """Recognised by its greeting, or by the listing of its own API.

    It answers 200 with an error to paths that it does not know, loads a model when it is asked
    for, and tells no version. Fields that it does not know are ignored, ``ignore_eos`` among them.
    """

    name = "lmstudio"
    paths = ("/v1/models", "/lmstudio-greeting", "/api/v1/models", "/api/v0/models")

    def claim(self, answers: Answers) -> Claim:
        """Either one is enough."""
        signs = []
        if object_at(answers, "/lmstudio-greeting").get("lmstudio") is True:
            signs.append("/lmstudio-greeting lmstudio true")
        if any("compatibility_type" in entry and "state" in entry for entry in _v0(answers)):
            signs.append("/api/v0/models with compatibility_type and state")
        return Claim(tuple(signs))

    def facts(self, answers: Answers, model: str | None) -> Facts:
        """Those of a loaded instance of the model."""
        entry, config = _loaded(answers, model)
        old = next((e for e in _v0(answers) if model is None or e.get("id") == model), {})
        quantization = entry.get("quantization") or old.get("quantization")
        context = config.get("context_length") or old.get("loaded_context_length")
        engine = text_of(entry.get("format")) or text_of(old.get("compatibility_type"))
        return Facts(
            engine=self.name,
            models=models_of(answers),
            weight_format=text_of(dict_in(quantization).get("name")) or text_of(quantization),
            slots=positive(config.get("parallel")),
            context_per_request=positive(context),
            settings={"format": engine} if engine else {},
            hint="" if positive(context) else "no loaded instance tells its context",
        )


def _v0(answers: Answers) -> list[dict[str, Any]]:
    return objects_in(object_at(answers, "/api/v0/models").get("data"))


def _loaded(answers: Answers, model: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model and the settings of its instance, if it is certain which one is asked for."""
    found = [
        (entry, instance)
        for entry in objects_in(object_at(answers, "/api/v1/models").get("models"))
        for instance in objects_in(entry.get("loaded_instances"))
        if model is None or model in (entry.get("key"), instance.get("id"))
    ]
    exact = [pair for pair in found if pair[1].get("id") == model]
    if len(exact or found) != 1:
        return {}, {}
    ((entry, instance),) = exact or found
    return entry, dict_in(instance.get("config"))
