"""What one JSON chunk of a completion stream says, whichever engine wrote it."""

from __future__ import annotations

import json
from dataclasses import dataclass

_FAILED_FINISH = frozenset({"error", "abort"})
"""Finish reasons with which vLLM and gateways end an answer that failed."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The facts of one chunk; ``None`` where it does not say.

    Attributes:
        text: What the model wrote in this chunk: reasoning, answer and tool calls, joined.
        visible: Whether part of it is the answer itself.
        choices: Whether it belongs to the answer at all (role-only chunks do).
        error: Message of a top-level error, or "".
        completion_tokens, prompt_tokens, cached_tokens: From ``usage``.
        predicted_n, prompt_n, cache_n: From llama.cpp's ``timings``.
    """

    text: str = ""
    visible: bool = False
    choices: bool = False
    finish_reason: str = ""
    error: str = ""
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    predicted_n: int | None = None
    prompt_n: int | None = None
    cache_n: int | None = None


def parse_chunk(data: str) -> Chunk:
    """Reads one chunk of ``/v1/chat/completions`` or ``/v1/completions``.

    Usage may share a chunk with choices (llama.cpp's ``/v1/completions``), have its own (vLLM),
    or ride on every chunk.

    Raises:
        ValueError: It is not a JSON object.
    """
    try:
        body = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(body, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - callers know one error
    choices = [choice for choice in _items(body.get("choices")) if choice]
    written = [_written(choice) for choice in choices]
    finish = next(filter(None, (_text(choice.get("finish_reason")) for choice in choices)), "")
    usage, timings = _object(body.get("usage")), _object(body.get("timings"))
    return Chunk(
        text="".join(hidden + visible for hidden, visible in written),
        visible=any(visible for _, visible in written),
        choices=bool(choices),
        finish_reason=finish,
        error=_error(body.get("error"), finish),
        completion_tokens=_count(usage.get("completion_tokens")),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(_object(usage.get("prompt_tokens_details")).get("cached_tokens")),
        predicted_n=_count(timings.get("predicted_n")),
        prompt_n=_count(timings.get("prompt_n")),
        cache_n=_count(timings.get("cache_n")),
    )


def error_message(error: object) -> str:
    """The message of an error as servers phrase them; "" for null, empty and false."""
    if not error:
        return ""
    if isinstance(error, dict):
        for key in ("message", "detail"):
            if error.get(key):
                return str(error[key])
    return error if isinstance(error, str) else json.dumps(error)


def _error(error: object, finish: str) -> str:
    message = error_message(error)
    if not message and finish in _FAILED_FINISH:
        return f'finish_reason "{finish}"'
    return message


def _written(choice: dict[str, object]) -> tuple[str, str]:
    """Hidden text (reasoning, tool calls) and visible text of one choice."""
    delta = _object(choice.get("delta"))
    # vLLM sends one reasoning text under both names while it moves from one to the other.
    hidden = _text(delta.get("reasoning")) or _text(delta.get("reasoning_content"))
    calls = [_object(call.get("function")) for call in _items(delta.get("tool_calls"))]
    calls.append(_object(delta.get("function_call")))
    hidden += "".join(_text(call.get("name")) + _text(call.get("arguments")) for call in calls)
    return hidden, _text(delta.get("content")) or _text(choice.get("text"))


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[dict[str, object]]:
    return [_object(item) for item in value] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_MOST_TOKENS = 2**31
"""No context is this long: a server that says so does not count."""


def _count(value: object) -> int | None:
    """A token count; gateways written in JavaScript or Lua may send 12 as 12.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MOST_TOKENS else None
