"""What one JSON chunk of a completion stream says, whichever engine wrote it."""

from __future__ import annotations

import json

import msgspec

FAILED_FINISH = frozenset({"error", "abort"})
"""Finish reasons with which vLLM and gateways end an answer that failed."""


class CallPart(msgspec.Struct, frozen=True):
    """What a chunk adds to a tool call.

    Attributes:
        index: Which of the answer's calls.
        id, name: Usually in its first part alone.
    """

    index: int
    id: str
    name: str
    arguments: str


class Counts(msgspec.Struct, frozen=True):
    """What a chunk counts; ``None`` where it does not say.

    Attributes:
        completion_tokens, prompt_tokens, cached_tokens: From ``usage``.
        predicted_n, prompt_n, cache_n: From llama.cpp's ``timings``.
        draft_n, draft_n_accepted: Likewise, with speculative decoding.
    """

    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    predicted_n: int | None = None
    prompt_n: int | None = None
    cache_n: int | None = None
    draft_n: int | None = None
    draft_n_accepted: int | None = None


NOTHING = Counts()


class Chunk(msgspec.Struct, frozen=True):
    """The facts of one chunk.

    Attributes:
        text: What the model wrote in this chunk: reasoning, answer and tool calls, joined.
        content: The part of it that is the answer itself.
        choices: Whether it belongs to the answer at all (role-only chunks do).
        error: Message of a top-level error, or "".
        counts: ``None`` if it counts nothing.
    """

    text: str = ""
    content: str = ""
    choices: bool = False
    finish_reason: str = ""
    error: str = ""
    calls: tuple[CallPart, ...] = ()
    counts: Counts | None = None


def parse_chunk(data: str) -> Chunk:
    """Reads one chunk of ``/v1/chat/completions`` or ``/v1/completions``, however it looks.

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
    return Chunk(
        text="".join(hidden + content for hidden, content in written),
        content="".join(content for _, content in written),
        choices=bool(choices),
        finish_reason=finish,
        error=_error(body, choices, finish),
        calls=tuple(part for choice in choices for part in _calls(choice)),
        counts=_counts(body),
    )


def error_message(error: object) -> str:
    """The message of an error as servers phrase them; "" for null, empty, blank and false.

    An object all of whose fields are empty is no error either: gateways send one with each chunk.
    """
    if isinstance(error, str):
        return error.strip()
    if isinstance(error, dict):
        for key in ("message", "detail"):
            if told := str(error.get(key) or "").strip():
                return told
        error = {key: value for key, value in error.items() if not _is_blank(value)}
    return json.dumps(error) if error else ""


def body_error(body: dict[str, object]) -> str:
    """The message of the error that a JSON object is or holds; "" if it is none.

    vLLM up to 0.8 sends the error itself, with ``"object": "error"``; others name its ``type``.
    """
    message = error_message(body.get("error"))
    if not message and "error" in (body.get("object"), body.get("type")):
        return error_message(body)
    return message


def _is_blank(value: object) -> bool:
    return not (value.strip() if isinstance(value, str) else value)


def _error(body: dict[str, object], choices: list[dict[str, object]], finish: str) -> str:
    inner = (error_message(choice.get("error")) for choice in choices)
    message = body_error(body) or next(filter(None, inner), "")
    if not message and finish in FAILED_FINISH:
        return f'finish_reason "{finish}"'
    return message


def _written(choice: dict[str, object]) -> tuple[str, str]:
    """Hidden text (reasoning, tool calls) and visible text of one choice."""
    delta = _object(choice.get("delta"))
    # vLLM sends one reasoning text under both names while it moves from one to the other.
    hidden = _text(delta.get("reasoning")) or _text(delta.get("reasoning_content"))
    hidden += "".join(part.name + part.arguments for part in _calls(choice))
    return hidden, _spoken(delta.get("content")) or _text(choice.get("text"))


def _spoken(content: object) -> str:
    """An answer, which may come as a list of parts."""
    return _text(content) or "".join(_text(part.get("text")) for part in _items(content))


def _calls(choice: dict[str, object]) -> list[CallPart]:
    """Parts of tool calls; the older ``function_call`` is one without a number."""
    delta = _object(choice.get("delta"))
    parts = [
        _call_part(call, position) for position, call in enumerate(_items(delta.get("tool_calls")))
    ]
    if legacy := _object(delta.get("function_call")):
        parts.append(_call_part({"function": legacy}, 0))
    return parts


def _call_part(call: dict[str, object], position: int) -> CallPart:
    function = _object(call.get("function"))
    index = _count(call.get("index"))
    return CallPart(
        position if index is None else index,
        _text(call.get("id")),
        _text(function.get("name")),
        _text(function.get("arguments")),
    )


def _counts(body: dict[str, object]) -> Counts | None:
    usage, timings = _object(body.get("usage")), _object(body.get("timings"))
    counts = Counts(
        completion_tokens=_count(usage.get("completion_tokens")),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(_object(usage.get("prompt_tokens_details")).get("cached_tokens")),
        predicted_n=_count(timings.get("predicted_n")),
        prompt_n=_count(timings.get("prompt_n")),
        cache_n=_count(timings.get("cache_n")),
        draft_n=_count(timings.get("draft_n")),
        draft_n_accepted=_count(timings.get("draft_n_accepted")),
    )
    return None if counts == NOTHING else counts


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[dict[str, object]]:
    return [_object(item) for item in value] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


MOST_TOKENS = 2**31
"""No context is this long: a server that says so does not count."""


def _count(value: object) -> int | None:
    """A token count; gateways written in JavaScript or Lua may send 12 as 12.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MOST_TOKENS else None
