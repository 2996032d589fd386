"""What a stream said and when, gathered event by event."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .chunk import Chunk, error_message, parse_chunk

if TYPE_CHECKING:
    from .sse import SseEvent

_DETAIL_CHARS = 200


def shortened(text: str) -> str:
    """One line of at most 200 characters, for people."""
    return " ".join(text[: 8 * _DETAIL_CHARS].split())[:_DETAIL_CHARS]


@dataclass(slots=True)
class Transcript:
    """The facts of one stream so far; instants are monotonic nanoseconds.

    Attributes:
        text_ns: Instants of the chunks that carried text.
        error: Message of the first in-band error, or "".
        bad_json: Why the first unreadable event could not be read, or "".
        cut: The stream ended within an event.
    """

    texts: list[str] = field(default_factory=list)
    text_ns: list[int] = field(default_factory=list)
    first_choices_ns: int | None = None
    first_content_ns: int | None = None
    finish_reason: str = ""
    done: bool = False
    error: str = ""
    bad_json: str = ""
    cut: bool = False
    _completion_tokens: int | None = None
    _prompt_tokens: int | None = None
    _cached_tokens: int | None = None
    _predicted_n: int | None = None
    _prompt_n: int | None = None
    _cache_n: int | None = None

    @property
    def complete(self) -> bool:
        """The server said that it was done, with ``[DONE]`` or a finish reason."""
        return self.done or bool(self.finish_reason)

    @property
    def text(self) -> str:
        """All that the model wrote, reasoning and tool calls included.

        An emoji may come as two surrogates in two chunks; joined, they are one character again.
        """
        joined = "".join(self.texts)
        return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    @property
    def output_tokens(self) -> tuple[int | None, str]:
        """Tokens generated and who counted them: ``usage``, ``timings`` or ``estimate``.

        A count of zero beside text is not believed.
        """
        if self._completion_tokens or (self._completion_tokens == 0 and not self.texts):
            return self._completion_tokens, "usage"
        if self._predicted_n or (self._predicted_n == 0 and not self.texts):
            return self._predicted_n, "timings"
        return (len(self.texts), "estimate") if self.texts else (None, "")

    @property
    def prompt_tokens(self) -> int | None:
        """Prompt tokens; llama.cpp's timings count evaluated and cached ones apart."""
        if self._prompt_tokens is not None or self._prompt_n is None:
            return self._prompt_tokens
        return self._prompt_n + (self._cache_n or 0)

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that the engine did not have to evaluate."""
        return self._cache_n if self._cached_tokens is None else self._cached_tokens

    def take(self, t_ns: int, event: SseEvent, *, at_end: bool = False) -> None:
        """Adds one event; ``at_end`` when only the end of the stream brought it out."""
        data = event.data.strip()
        if self.done:
            return
        if data == "[DONE]":
            self.done = True
        elif event.type == "error":
            self.error = self.error or shortened(_bare_error(data)) or "error"
        else:
            self._take_data(t_ns, data, at_end=at_end)

    def _take_data(self, t_ns: int, data: str, *, at_end: bool) -> None:
        try:
            chunk = parse_chunk(data)
        except ValueError as error:
            if at_end:
                self.cut = True
            else:
                self.bad_json = self.bad_json or shortened(f"{error}: {data}")
        else:
            self._take_chunk(t_ns, chunk)

    def _take_chunk(self, t_ns: int, chunk: Chunk) -> None:
        self.error = self.error or shortened(chunk.error)
        self.finish_reason = self.finish_reason or chunk.finish_reason
        if chunk.choices and self.first_choices_ns is None:
            self.first_choices_ns = t_ns
        if chunk.visible and self.first_content_ns is None:
            self.first_content_ns = t_ns
        if chunk.text:
            self.texts.append(chunk.text)
            self.text_ns.append(t_ns)
        self._take_counts(chunk)

    def _take_counts(self, chunk: Chunk) -> None:
        """The last word on a count stands: with continuous usage every chunk has one."""
        self._completion_tokens = _newest(chunk.completion_tokens, self._completion_tokens)
        self._prompt_tokens = _newest(chunk.prompt_tokens, self._prompt_tokens)
        self._cached_tokens = _newest(chunk.cached_tokens, self._cached_tokens)
        self._predicted_n = _newest(chunk.predicted_n, self._predicted_n)
        self._prompt_n = _newest(chunk.prompt_n, self._prompt_n)
        self._cache_n = _newest(chunk.cache_n, self._cache_n)


def _newest(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


def _bare_error(data: str) -> str:
    """Message of an error event: an error object, or one wrapped in ``{"error": ...}``."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if isinstance(body, dict) and body.get("error"):
        body = body["error"]
    return error_message(body)
