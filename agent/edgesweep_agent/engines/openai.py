"""Any server with OpenAI's chat API that no other adapter recognises, gateways included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.answers import models_of

from .base import Adapter, Claim, Facts

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers


class OpenAI(Adapter):
    """The fallback: honest about not knowing what is behind the API."""

    name = "unknown"

    def claim(self, answers: Answers) -> Claim:
        """A listing is a sign of the API, not of an engine."""
        models = models_of(answers)
        return Claim((f"/v1/models lists {len(models)}",) if models else ())

    def facts(self, answers: Answers, model: str | None) -> Facts:  # noqa: ARG002 - nothing told
        """Its models; no engine label is put on a guess."""
        return Facts(engine=self.name, models=models_of(answers))
