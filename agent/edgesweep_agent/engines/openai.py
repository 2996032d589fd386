"""Any server with OpenAI's chat API that no other adapter recognises, gateways included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.answers import models_of

from .base import Facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep_agent.core.answers import Answers


class OpenAI:
    """The fallback: honest about not knowing what is behind the API."""

    name = "unknown"
    paths: tuple[str, ...] = ("/v1/models",)

    def recognise(self, answers: Answers) -> Facts | None:
        """Whatever answers; no engine label is put on a guess."""
        models = models_of(answers)
        evidence = (f"GET /v1/models lists {len(models)}",) if models else ()
        return Facts(engine=self.name, models=models, evidence=evidence)

    def body_fields(self) -> Mapping[str, object]:
        """None: a strict server refuses fields that it does not know."""
        return {}
