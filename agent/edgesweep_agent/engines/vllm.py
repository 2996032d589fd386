"""vLLM's API server (vllm-project/vllm, vllm/entrypoints)."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from edgesweep_agent.core.answers import (
    NO_REPLY,
    dict_in,
    listed_models,
    models_of,
    object_at,
    positive,
    text_of,
    version_of,
)
from edgesweep_agent.core.counters import Counters, MetricNames, scraped
from edgesweep_agent.core.exposition import parse

from .base import Adapter, Claim, Counting, Facts, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep_agent.core.answers import Answers

SERVER_INFO = "/server_info?config_format=json"
"""Served in developer mode alone; SGLang has the path, too, and does not mind the format."""

NAMES = MetricNames(
    prefix="vllm:",
    running=("vllm:num_requests_running",),
    waiting=("vllm:num_requests_waiting",),
    # Renamed with vllm-project/vllm PR#18354, the old name removed with PR#29330.
    kv_cache_usage=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    counted={
        "prompt_tokens": ("vllm:prompt_tokens_total",),
        "cached_prompt_tokens": ("vllm:prompt_tokens_cached_total",),
        "generation_tokens": ("vllm:generation_tokens_total",),
        "preemptions": ("vllm:num_preemptions_total",),
        "prefix_queries": (
            "vllm:prefix_cache_queries_total",
            "vllm:gpu_prefix_cache_queries_total",
        ),
        "prefix_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        "draft_tokens": ("vllm:spec_decode_num_draft_tokens_total",),
        "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens_total",),
    },
    without="no vllm:* among the metrics (--disable-log-stats)",
)
_CACHE_INFO = ("vllm:cache_config_info",)
_CACHE_LABELS = (
    "kv_cache_size_tokens",
    "block_size",
    "num_gpu_blocks",
    "enable_prefix_caching",
    "cache_dtype",
)
_SIZE = re.compile(r"[0-9]{1,15}")
_MAX_NUM_SEQS = re.compile(r"\bmax_num_seqs['\"]?\s*[=:]\s*(\d{1,9})\b")


class VLlm(Adapter):
    """Recognised by its listing together with ``/version`` or its metrics.

    Neither suffices alone: LocalAI answers ``/version`` in the same shape, and a gateway passes
    a listing on.
    """

    name = "vllm"
    paths = ("/health", "/v1/models", "/version", SERVER_INFO, "/metrics")
    scrape_paths = ("/metrics",)

    def claim(self, answers: Answers) -> Claim:
        """Two signs, of which the listing with ``max_model_len`` is one."""
        if not any(
            entry.get("owned_by") == "vllm" and positive(entry.get("max_model_len"))
            for entry in listed_models(answers)
        ):
            return Claim()
        signs = ["/v1/models owned_by vllm with max_model_len"]
        if version := version_of(object_at(answers, "/version").get("version")):
            signs.append(f"/version {version}")
        if parse(answers.get("/metrics", NO_REPLY).text).has(NAMES.prefix):
            signs.append("/metrics vllm:*")
        alone = len(signs) == 1
        return Claim(tuple(signs), ("neither /version nor vllm:* metrics",) if alone else ())

    def facts(self, answers: Answers, model: str | None) -> Facts:
        """``max_num_seqs`` is told in developer mode alone (``VLLM_SERVER_DEV_MODE=1``)."""
        slots = _max_num_seqs(answers)
        return Facts(
            engine=self.name,
            version=version_of(object_at(answers, "/version").get("version")),
            models=models_of(answers),
            slots=slots,
            context_per_request=max_model_len(answers, model),
            settings=_cache_settings(answers),
            hint="" if slots else "max_num_seqs is told with VLLM_SERVER_DEV_MODE=1 alone",
        )

    def counters(self, answers: Answers) -> Counters:
        """What its statistics say; the pool's size where the version tells it."""
        told = scraped(answers.get("/metrics"), NAMES)
        prompt = told.counted.get("prompt_tokens")
        cached = told.counted.get("cached_prompt_tokens")
        if prompt is not None and cached is not None:
            told = replace(
                told, counted={**told.counted, "computed_prompt_tokens": prompt - cached}
            )
        return replace(told, kv_capacity_tokens=_capacity(answers))

    def counting(self) -> Counting | None:
        """``/tokenize`` applies the chat template."""
        return Counting(((_TOKENIZE,),))

    def body_fields(self) -> Mapping[str, object]:
        """Fixed lengths; and no penalty out of the model's ``generation_config.json``."""
        return {"ignore_eos": True, "repetition_penalty": 1.0}

    def request_fields(self, nonce: str) -> Mapping[str, object]:
        """A salt of its own keeps a request from the prefix cache of all the others.

        Hashed, since vLLM 0.32 takes 128 characters at most, and no slash.
        """
        return {"cache_salt": sha256(nonce.encode()).hexdigest()[:32]}


def max_model_len(answers: Answers, model: str | None) -> int | None:
    """The context of ``model`` in a listing, or of the first one that tells it."""
    told = (
        positive(entry.get("max_model_len"))
        for entry in listed_models(answers)
        if model is None or entry.get("id") == model
    )
    return next((length for length in told if length), None)


def _max_num_seqs(answers: Answers) -> int | None:
    config = object_at(answers, SERVER_INFO).get("vllm_config")
    scheduler = dict_in(dict_in(config).get("scheduler_config"))
    if (told := positive(scheduler.get("max_num_seqs"))) is not None:
        return told
    # Older versions print the configuration, however it was asked for.
    found = _MAX_NUM_SEQS.search(text_of(config))
    return positive(int(found[1])) if found else None


def _cache_settings(answers: Answers) -> dict[str, str]:
    infos = parse(answers.get("/metrics", NO_REPLY).text).named(_CACHE_INFO)
    told = {
        label: sorted({series.labels.get(label, "None") for series in infos} - {"None", ""})
        for label in _CACHE_LABELS
    }
    return {label: ",".join(values) for label, values in told.items() if values}


def _capacity(answers: Answers) -> float | None:
    """Over all engines; blocks times their size would be wrong for models with two caches."""
    infos = parse(answers.get("/metrics", NO_REPLY).text).named(_CACHE_INFO)
    sizes = [series.labels.get("kv_cache_size_tokens", "") for series in infos]
    known = bool(sizes) and all(_SIZE.fullmatch(size) for size in sizes)
    return float(sum(int(size) for size in sizes)) if known else None


_TOKENIZE = Step(
    "/tokenize",
    lambda model, text: {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "add_generation_prompt": True,
    },
    lambda reply: positive(reply.json_object().get("count")),
)
