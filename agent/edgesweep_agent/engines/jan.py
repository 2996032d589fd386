"""Jan's local API server (janhq/jan): a proxy before the llama.cpp or MLX that it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.answers import dict_in, models_of, object_at, text_of

from .base import Adapter, Claim, Facts

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers


class Jan(Adapter):
    """Recognised by the description of its API, which it serves without a key.

    Slots and context of what it starts are told by none of its addresses.
    """

    name = "jan"
    paths = ("/v1/models", "/openapi.json")
    emulates = ("llama.cpp",)

    def claim(self, answers: Answers) -> Claim:
        """The title of its API (src-tauri/static/openapi.json)."""
        title = text_of(dict_in(object_at(answers, "/openapi.json").get("info")).get("title"))
        return Claim((f"/openapi.json {title}",) if title.startswith("Jan API") else ())

    def facts(self, answers: Answers, model: str | None) -> Facts:  # noqa: ARG002 - nothing told
        """Its models."""
        return Facts(engine=self.name, models=models_of(answers))
