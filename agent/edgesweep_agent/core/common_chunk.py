"""The chunks that nearly every token comes in, read in a twentieth of the time.

``chunk.parse_chunk`` reads anything a server may send. These read what llama.cpp and vLLM send for
a token of text and for the usage at the end, and nothing else: where a chunk has more choices than
one, a tool call, an error, a field of another type or broken text, they say so and leave it to the
other. Where they do answer, all agree (tests/agent/test_common_chunk.py).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from .chunk import FAILED_FINISH, MOST_TOKENS, NOTHING, Chunk, Counts

_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: msgspec.Raw | UnsetType = UNSET
    function_call: msgspec.Raw | UnsetType = UNSET


class _Choice(msgspec.Struct):
    delta: _Delta | UnsetType = UNSET
    text: str | UnsetType = UNSET
    finish_reason: str | None = None
    error: msgspec.Raw | UnsetType = UNSET


class _Details(msgspec.Struct):
    cached_tokens: _Count | None = None


class _Usage(msgspec.Struct):
    completion_tokens: _Count | None = None
    prompt_tokens: _Count | None = None
    prompt_tokens_details: _Details | None = None


class _Body(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: msgspec.Raw | UnsetType = UNSET
    timings: msgspec.Raw | UnsetType = UNSET


class _TokenDelta(msgspec.Struct):
    content: str
    reasoning: None = None
    reasoning_content: None = None
    tool_calls: None = None
    function_call: None = None


class _TokenChoice(msgspec.Struct):
    delta: _TokenDelta
    finish_reason: None = None
    error: None = None


class _Token(msgspec.Struct):
    choices: Annotated[list[_TokenChoice], msgspec.Meta(min_length=1, max_length=1)]
    usage: None = None
    error: None = None
    timings: None = None


_decode = msgspec.json.Decoder(_Body).decode
_decode_token = msgspec.json.Decoder(_Token).decode


def token_texts(datas: list[bytes], start: int) -> list[str]:
    """What the chunks from one on bring, while each brings text of the answer and nothing else.

    That is nearly all of a stream; :func:`common_chunk` takes five times as long for each.
    """
    texts: list[str] = []
    try:
        for n in range(start, len(datas)):
            text = _decode_token(datas[n]).choices[0].delta.content
            if not text:
                break
            texts.append(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The chunk at which it ends is somebody else's.
        return texts
    return texts


def common_chunk(data: bytes) -> Chunk | None:
    """The facts of a chunk of the common kind; ``None`` for any other."""
    if not data.startswith(b"{") or not data.endswith(b"}"):
        return None
    try:
        body = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if body.error is not UNSET or body.timings is not UNSET:
        return None
    counts = None if body.usage is None else _counts(body.usage)
    if len(body.choices) != 1:
        # What neither says nor counts anything may be an error without that name.
        return None if body.choices or counts is None else Chunk(counts=counts)
    return _token(body.choices[0], counts)


def _token(choice: _Choice, counts: Counts | None) -> Chunk | None:
    delta, finish = choice.delta, choice.finish_reason or ""
    if finish in FAILED_FINISH or choice.error is not UNSET:
        return None
    if delta is UNSET:
        # A choice without either may be empty, which is none.
        if choice.text is UNSET:
            return None
        return Chunk(choice.text, choice.text, True, finish, counts=counts)
    if delta.tool_calls is not UNSET or delta.function_call is not UNSET:
        return None
    content = delta.content or choice.text or ""
    hidden = delta.reasoning or delta.reasoning_content
    return Chunk(hidden + content if hidden else content, content, True, finish, counts=counts)


def _counts(usage: _Usage) -> Counts | None:
    details = usage.prompt_tokens_details
    counts = Counts(
        usage.completion_tokens,
        usage.prompt_tokens,
        None if details is None else details.cached_tokens,
    )
    return None if counts == NOTHING else counts
