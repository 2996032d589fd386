"""llama.cpp's server (ggml-org/llama.cpp, tools/server)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgesweep_agent.core.answers import NO_REPLY, listed_models, models_of

from .base import Facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep_agent.core.answers import Answers


class LlamaCpp:
    """Recognised by ``/props`` and by ``owned_by``; the ``Server`` header only supports it."""

    name = "llama.cpp"
    paths: tuple[str, ...] = ("/health", "/v1/models", "/props", "/slots")

    def recognise(self, answers: Answers) -> Facts | None:
        """Facts of a llama.cpp server; slots and context are those of one slot."""
        props = answers.get("/props", NO_REPLY).json_object()
        evidence = _evidence(answers, props)
        if not evidence:
            return None
        slots = _slots(answers)
        busy = [slot for slot in slots if slot.get("is_processing")]
        return Facts(
            engine=self.name,
            version=str(props.get("build_info") or ""),
            models=models_of(answers),
            weight_format=str(props.get("model_ftype") or ""),
            slots=_positive(props.get("total_slots")),
            context_per_request=_context(props, slots),
            running=len(busy) if slots else None,
            evidence=evidence,
        )

    def body_fields(self) -> Mapping[str, object]:
        """Fixed output lengths, and no reuse of a prompt left in a slot.

        ``ignore_eos`` had no effect in some builds (ggml-org/llama.cpp#14710, #21203): the
        delivered length is checked all the same.
        """
        return {"ignore_eos": True, "cache_prompt": False}


def _evidence(answers: Answers, props: dict[str, Any]) -> tuple[str, ...]:
    found = []
    if "build_info" in props and ("total_slots" in props or "model_path" in props):
        found.append(f"/props build_info {props['build_info']}")
    if any(entry.get("owned_by") == "llamacpp" for entry in listed_models(answers)):
        found.append("/v1/models owned_by llamacpp")
    if found and answers.get("/v1/models", NO_REPLY).headers.get("server") == "llama.cpp":
        found.append("header Server: llama.cpp")
    return tuple(found)


def _slots(answers: Answers) -> list[dict[str, Any]]:
    return [slot for slot in answers.get("/slots", NO_REPLY).json_array() if isinstance(slot, dict)]


def _context(props: dict[str, Any], slots: list[dict[str, Any]]) -> int | None:
    """Tokens of one slot: ``/slots`` if it tells, else ``/props``.

    ``default_generation_settings.n_ctx`` is per slot (tools/server/README.md); a router
    answers 0, which is "ask with a model".
    """
    told = [_positive(slot.get("n_ctx")) for slot in slots]
    if told and all(told):
        return min(n for n in told if n)
    settings = props.get("default_generation_settings")
    return _positive(settings.get("n_ctx")) if isinstance(settings, dict) else None


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
