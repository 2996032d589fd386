"""SGLang (sgl-project/sglang)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgesweep_agent.core.answers import (
    NO_REPLY,
    listed_models,
    models_of,
    object_at,
    positive,
    text_of,
    version_of,
)
from edgesweep_agent.core.counters import Counters, MetricNames, scraped
from edgesweep_agent.core.exposition import parse

from .base import Adapter, Claim, Facts
from .vllm import SERVER_INFO, max_model_len

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep_agent.core.answers import Answers

NAMES = MetricNames(
    prefix="sglang:",
    running=("sglang:num_running_reqs",),
    waiting=("sglang:num_queue_reqs",),
    kv_cache_usage=("sglang:token_usage",),
    kv_capacity_tokens=("sglang:max_total_num_tokens",),
    kv_used_tokens=("sglang:num_used_tokens",),
    counted={
        "prompt_tokens": ("sglang:prompt_tokens_total",),
        "cached_prompt_tokens": ("sglang:cached_tokens_total",),
        "generation_tokens": ("sglang:generation_tokens_total",),
        # The gauge num_retracted_reqs is set back after each scrape.
        "preemptions": ("sglang:num_retracted_requests_total",),
    },
)
_SERVER_INFOS = (SERVER_INFO, "/get_server_info")
_SETTINGS = (
    "max_total_num_tokens",
    "kv_cache_dtype",
    "disable_radix_cache",
    "chunked_prefill_size",
    "attention_backend",
    "tp_size",
    "dp_size",
)
"""A choice: the rest of the server's arguments holds its API key, too."""


class SgLang(Adapter):
    """Recognised by two of its listing, its server's arguments and its metrics."""

    name = "sglang"
    paths = ("/health", "/v1/models", *_SERVER_INFOS, "/metrics")
    scrape_paths = ("/metrics",)

    def claim(self, answers: Answers) -> Claim:
        """One of them alone may be passed on by something else."""
        info, signs = _info(answers), []
        if any(
            entry.get("owned_by") == "sglang" and positive(entry.get("max_model_len"))
            for entry in listed_models(answers)
        ):
            signs.append("/v1/models owned_by sglang with max_model_len")
        if info:
            signs.append(f"/server_info version {version_of(info['version'])}")
        if parse(answers.get("/metrics", NO_REPLY).text).has(NAMES.prefix):
            signs.append("/metrics sglang:*")
        return Claim(tuple(signs), ("nothing else of SGLang's",) if len(signs) == 1 else ())

    def facts(self, answers: Answers, model: str | None) -> Facts:
        """What the server was started with."""
        info = _info(answers)
        told = {name: info.get(name) for name in _SETTINGS}
        return Facts(
            engine=self.name,
            version=version_of(info.get("version")),
            models=models_of(answers),
            weight_format=text_of(info.get("quantization")),
            slots=positive(info.get("max_running_requests")),
            context_per_request=max_model_len(answers, model),
            settings={name: str(value) for name, value in told.items() if value is not None},
        )

    def counters(self, answers: Answers) -> Counters:
        """What ``--enable-metrics`` tells; off by default."""
        told = scraped(answers.get("/metrics"), NAMES)
        prompt = told.counted.get("prompt_tokens")
        cached = told.counted.get("cached_prompt_tokens")
        if prompt is None or cached is None:
            return told
        return replace(told, counted={**told.counted, "computed_prompt_tokens": prompt - cached})

    def body_fields(self) -> Mapping[str, object]:
        """Fixed lengths; and no penalty out of the model's ``generation_config.json``."""
        return {"ignore_eos": True, "repetition_penalty": 1.0}


def _info(answers: Answers) -> dict[str, Any]:
    for path in _SERVER_INFOS:
        info = object_at(answers, path)
        if version_of(info.get("version")) and "tp_size" in info and "model_path" in info:
            return info
    return {}
