"""Text Generation Inference (huggingface/text-generation-inference)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.answers import models_of, object_at, positive, text_of, version_of
from edgesweep_agent.core.counters import Counters, MetricNames, scraped

from .base import Adapter, Claim, Facts

if TYPE_CHECKING:
    from edgesweep_agent.core.answers import Answers

NAMES = MetricNames(
    prefix="tgi_",
    running=("tgi_batch_current_size",),
    waiting=("tgi_queue_size",),
    # Tokens are counted in histograms alone, once a request has ended.
    counted={
        "prompt_tokens": ("tgi_request_input_length_sum",),
        "generation_tokens": ("tgi_request_generated_tokens_sum",),
    },
)
_SETTINGS = ("max_concurrent_requests", "max_batch_total_tokens", "max_input_tokens", "model_dtype")


class Tgi(Adapter):
    """Recognised by ``/info``.

    ``max_concurrent_requests`` is where it begins to refuse, not how many it works on: the
    batch is bounded in tokens.
    """

    name = "tgi"
    paths = ("/health", "/v1/models", "/info", "/metrics")
    scrape_paths = ("/metrics",)

    def claim(self, answers: Answers) -> Claim:
        """The router's name."""
        router = text_of(object_at(answers, "/info").get("router"))
        return Claim(
            (f"/info router {router}",) if router.startswith("text-generation-router") else ()
        )

    def facts(self, answers: Answers, model: str | None) -> Facts:  # noqa: ARG002 - it has one
        """What the router was started with."""
        info = object_at(answers, "/info")
        told = {name: info.get(name) for name in _SETTINGS}
        return Facts(
            engine=self.name,
            version=version_of(info.get("version")),
            build=text_of(info.get("sha")),
            models=models_of(answers),
            context_per_request=positive(info.get("max_total_tokens")),
            settings={name: str(value) for name, value in told.items() if value is not None},
        )

    def counters(self, answers: Answers) -> Counters:
        """Its own metrics."""
        return scraped(answers.get("/metrics"), NAMES)
