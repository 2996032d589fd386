"""KoboldCpp (LostRuins/koboldcpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.answers import models_of, object_at, owners_of, positive, version_of
from edgesweep_agent.core.counters import Counters, MetricsState, silent

from .base import Adapter, Claim, Facts

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers

_VERSION = "/api/extra/version"
_CONTEXT = "/api/extra/true_max_context_length"
_PERF = "/api/extra/perf"


class KoboldCpp(Adapter):
    """Recognised by its own API; it answers to those of Ollama and of llama.cpp, too."""

    name = "koboldcpp"
    paths = ("/v1/models", _VERSION, _CONTEXT, _PERF)
    scrape_paths = (_PERF,)
    emulates = ("ollama", "llama.cpp")

    def claim(self, answers: Answers) -> Claim:
        """It names itself."""
        told = object_at(answers, _VERSION)
        if told.get("result") != "KoboldCpp":
            return Claim()
        more = ("/v1/models owned_by koboldcpp",) if "koboldcpp" in owners_of(answers) else ()
        return Claim((f"{_VERSION} KoboldCpp {version_of(told.get('version'))}", *more))

    def facts(self, answers: Answers, model: str | None) -> Facts:  # noqa: ARG002 - it has one
        """Version and context."""
        return Facts(
            engine=self.name,
            version=version_of(object_at(answers, _VERSION).get("version")),
            models=models_of(answers),
            context_per_request=positive(object_at(answers, _CONTEXT).get("value")),
        )

    def counters(self, answers: Answers) -> Counters:
        """Whether it works, and who waits."""
        perf = object_at(answers, _PERF)
        idle, queue = perf.get("idle"), perf.get("queue")
        if idle not in (0, 1):
            return silent(MetricsState.UNREADABLE, f"{_PERF} does not say whether it is idle")
        return Counters(
            MetricsState.OK,
            running=0.0 if idle else 1.0,
            waiting=float(queue) if type(queue) is int and queue >= 0 else None,
        )
