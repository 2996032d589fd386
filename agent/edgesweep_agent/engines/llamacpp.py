"""llama.cpp's server (ggml-org/llama.cpp, tools/server), with one model or as a router."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from edgesweep_agent.core.answers import (
    NO_REPLY,
    aliases_of,
    dict_in,
    listed_models,
    models_of,
    object_at,
    objects_in,
    owners_of,
    positive,
    text_of,
    version_of,
)
from edgesweep_agent.core.counters import Counters, MetricNames, scraped

from .base import Adapter, Claim, Counting, Facts, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep_agent.core.answers import Answers, Reply

NAMES = MetricNames(
    prefix="llamacpp:",
    running=("llamacpp:requests_processing",),
    waiting=("llamacpp:requests_deferred",),
    # Withdrawn with ggml-org/llama.cpp PR#13660; old builds have it.
    kv_cache_usage=("llamacpp:kv_cache_usage_ratio",),
    kv_used_tokens=("llamacpp:kv_cache_tokens",),
    counted={
        "computed_prompt_tokens": ("llamacpp:prompt_tokens_total",),
        "cached_prompt_tokens": ("llamacpp:prompt_tokens_cached_total",),
        "generation_tokens": ("llamacpp:tokens_predicted_total",),
        "draft_tokens": ("llamacpp:spec_decode_num_draft_tokens_total",),
        "accepted_tokens": ("llamacpp:spec_decode_num_accepted_tokens_total",),
        "decodes": ("llamacpp:n_decode_total",),
    },
    busy_slots_per_decode=("llamacpp:n_busy_slots_per_decode",),
)
_STARTED = "process-start-time-unix"


class LlamaCpp(Adapter):
    """Recognised by ``/props`` and by ``owned_by``; the ``Server`` header only supports it."""

    name = "llama.cpp"

    def __init__(self, query: str = "") -> None:
        """An adapter whose addresses end in ``query``: a router wants to know the model."""
        self._props, self._slots = f"/props{query}", f"/slots{query}"
        self.paths = ("/health", "/v1/models", self._props, self._slots)
        # The metrics are off by default, the live state of the slots is on.
        self.scrape_paths = (f"/metrics{query}", self._slots)

    def claim(self, answers: Answers) -> Claim:
        """Every build names itself as the owner of its models."""
        props, owners = object_at(answers, self._props), owners_of(answers)
        signs = []
        build = version_of(props.get("build_info"))
        if build and ("total_slots" in props or "model_path" in props):
            signs.append(f"/props build_info {build}")
        if "llamacpp" in owners:
            signs.append("/v1/models owned_by llamacpp")
        if (
            signs
            and answers.get("/v1/models", NO_REPLY).headers.get("server", "").lower() == "llama.cpp"
        ):
            signs.append("header Server: llama.cpp")
        strange = signs and owners and "llamacpp" not in owners
        return Claim(tuple(signs), (f"owned_by {', '.join(sorted(owners))}",) if strange else ())

    def facts(self, answers: Answers, model: str | None) -> Facts:
        """Slots, and the context of one slot."""
        props, slots = object_at(answers, self._props), self._live(answers)
        meta = _meta(answers, model)
        context = _context(props, slots) or positive(meta.get("n_ctx"))
        return Facts(
            engine=self.name,
            version=version_of(props.get("build_info")),
            models=models_of(answers),
            weight_format=text_of(props.get("model_ftype")) or text_of(meta.get("ftype")),
            slots=positive(props.get("total_slots")) or len(slots) or None,
            context_per_request=context,
            settings=_settings(props),
            hint="" if context else "/props and /slots do not tell its context",
        )

    def counters(self, answers: Answers) -> Counters:
        """Without ``/metrics`` only the slots tell: who is busy, not who waits."""
        metrics, live = answers.get(self.scrape_paths[0]), self._live(answers)
        told = scraped(metrics, NAMES)
        if live and told.running is None:
            busy = sum(slot.get("is_processing") is True for slot in live)
            told = replace(told, running=float(busy))
        computed = told.counted.get("computed_prompt_tokens")
        cached = told.counted.get("cached_prompt_tokens")
        if computed is not None and cached is not None:
            told = replace(told, counted={**told.counted, "prompt_tokens": computed + cached})
        return replace(told, slots=len(live) or None, process_start=_process_start(metrics))

    def counting(self) -> Counting | None:
        """Its own count since the Responses API came; before, the template and the tokenizer."""
        return Counting(((_INPUT_TOKENS,), (_APPLY_TEMPLATE, _TOKENIZE)))

    def body_fields(self) -> Mapping[str, object]:
        """Fixed lengths, no reuse of a prompt left in a slot, the cheapest greedy sampler.

        ``ignore_eos`` had no effect in some builds (ggml-org/llama.cpp#14710, #21203): the
        delivered length is checked all the same. The default chain of samplers works on the CPU
        over the whole vocabulary, slot by slot; one candidate is what temperature 0 takes too.
        """
        return {"ignore_eos": True, "cache_prompt": False, "samplers": ["top_k"], "top_k": 1}

    def _live(self, answers: Answers) -> list[dict[str, Any]]:
        return objects_in(answers.get(self._slots, NO_REPLY).json_array())


class LlamaCppRouter(LlamaCpp):
    """One address for several models, each in a llama.cpp of its own (ggml-org#17470).

    A request may load one model and evict another: it is measured only with a named model.
    """

    emulates = ("llama.cpp",)

    def __init__(self, model: str = "") -> None:
        """The router, or one ``model`` of it."""
        super().__init__(f"?model={quote(model, safe='')}" if model else "")
        self._model = model

    def claim(self, answers: Answers) -> Claim:
        """It says so; without a model its properties are those of none."""
        props = object_at(answers, "/props")
        if props.get("role") == "router":
            return Claim(("/props role router",))
        settings = dict_in(props.get("default_generation_settings"))
        if settings.get("n_ctx") == 0 and props.get("model_path") in ("none", ""):
            return Claim(("/props n_ctx 0, model_path none",))
        return Claim()

    def bound(self, model: str) -> LlamaCppRouter:
        """Asks for ``model`` in every address."""
        return LlamaCppRouter(model)

    def facts(self, answers: Answers, model: str | None) -> Facts:
        """Those of the model's own server, once it is named."""
        facts = super().facts(answers, model)
        return replace(
            facts,
            version=facts.version or version_of(object_at(answers, "/props").get("build_info")),
            settings={**facts.settings, "router": "true"},
            needs_model=not self._model,
            hint="" if facts.context_per_request else "a router: ask /props?model=NAME (--model)",
        )


def _meta(answers: Answers, model: str | None) -> dict[str, Any]:
    entries = listed_models(answers)
    for entry in entries:
        if model is None or model == entry.get("id") or model in aliases_of(entry):
            return dict_in(entry.get("meta"))
    return {}


def _context(props: dict[str, Any], slots: list[dict[str, Any]]) -> int | None:
    """Tokens of one slot: ``/slots`` if it tells, else ``/props``.

    ``default_generation_settings.n_ctx`` is per slot (tools/server/README.md); a router
    answers 0, which is "ask with a model".
    """
    told = [positive(slot.get("n_ctx")) for slot in slots]
    if told and all(told):
        return min(n for n in told if n)
    return positive(dict_in(props.get("default_generation_settings")).get("n_ctx"))


def _settings(props: dict[str, Any]) -> dict[str, str]:
    defaults = dict_in(props.get("default_generation_settings"))
    template = text_of(props.get("chat_template"))
    told = {
        "speculative": text_of(dict_in(defaults.get("params")).get("speculative.types")),
        "chat_template_sha256": template and hashlib.sha256(template.encode()).hexdigest(),
    }
    return {name: value for name, value in told.items() if value}


def _process_start(metrics: Reply | None) -> float | None:
    try:
        told = float(metrics.headers[_STARTED]) if metrics else math.nan
    except (KeyError, ValueError):
        return None
    return told if math.isfinite(told) else None


def _chat(model: str, text: str) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": text}]}


_INPUT_TOKENS = Step(
    "/v1/chat/completions/input_tokens",
    _chat,
    lambda reply: positive(reply.json_object().get("input_tokens")),
)
_APPLY_TEMPLATE = Step(
    "/apply-template", _chat, lambda reply: text_of(reply.json_object().get("prompt")) or None
)
_TOKENIZE = Step(
    "/tokenize",
    # As the server does with a prompt: the beginning-of-sequence token if the model has one.
    lambda model, prompt: {
        "model": model,
        "content": prompt,
        "add_special": True,
        "parse_special": True,
    },
    lambda reply: (
        len(tokens)
        if isinstance(tokens := reply.json_object().get("tokens"), list) and tokens
        else None
    ),
)
