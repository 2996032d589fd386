"""What a stream said and when, gathered event by event."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .chunk import CallPart, Chunk, Counts, error_message, parse_chunk
from .common_chunk import common_chunk, token_texts
from .sse import SseEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

_DETAIL_CHARS = 200


def shortened(text: str) -> str:
    """One line of at most 200 characters, for people."""
    return joined(" ".join(text[: 8 * _DETAIL_CHARS].split())[:_DETAIL_CHARS])


def joined(texts: Iterable[str]) -> str:
    """An emoji may come as two surrogates in two chunks; joined, they are one character again.

    What is left of halves would fit into no record and on no terminal, and is replaced.
    """
    whole = "".join(texts)
    return whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(slots=True)
class ToolCall:
    """A tool call as it was put together; ``arguments`` is JSON, if the model got it right."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Transcript:
    """The facts of one stream so far; instants are monotonic nanoseconds.

    Attributes:
        texts: What the chunks carried that had text; ``contents`` the part that is the answer.
        text_ns: Their instants.
        text_counts: Tokens so far at each of them, if every one of them said.
        tool_calls: In the order in which they began.
        error: Message of the first in-band error, or "".
        bad_json: Why the first unreadable event could not be read, or "".
        cut: The stream ended within an event.
    """

    texts: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    text_ns: list[int] = field(default_factory=list)
    text_counts: list[int] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    first_choices_ns: int | None = None
    first_content_ns: int | None = None
    finish_reason: str = ""
    done: bool = False
    error: str = ""
    bad_json: str = ""
    cut: bool = False
    _counts: Counts = field(default_factory=Counts)
    _calls: dict[int, ToolCall] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """The server said that it was done, with ``[DONE]`` or a finish reason."""
        return self.done or bool(self.finish_reason)

    @property
    def text(self) -> str:
        """All that the model wrote, reasoning and tool calls included."""
        return joined(self.texts)

    @property
    def content(self) -> str:
        """The answer alone."""
        return joined(self.contents)

    @property
    def output_tokens(self) -> tuple[int | None, str]:
        """Tokens generated and who counted them: ``usage``, ``timings`` or ``estimate``.

        A count of zero beside text is not believed.
        """
        counts, no_text = self._counts, not self.texts
        if counts.completion_tokens or (counts.completion_tokens == 0 and no_text):
            return counts.completion_tokens, "usage"
        if counts.predicted_n or (counts.predicted_n == 0 and no_text):
            return counts.predicted_n, "timings"
        return (len(self.texts), "estimate") if self.texts else (None, "")

    @property
    def prompt_tokens(self) -> int | None:
        """Prompt tokens; llama.cpp's timings count evaluated and cached ones apart."""
        counts = self._counts
        if counts.prompt_tokens is not None or counts.prompt_n is None:
            return counts.prompt_tokens
        return counts.prompt_n + (counts.cache_n or 0)

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that the engine did not have to evaluate."""
        counts = self._counts
        return counts.cache_n if counts.cached_tokens is None else counts.cached_tokens

    @property
    def draft_tokens(self) -> tuple[int | None, int | None]:
        """Tokens that speculative decoding guessed, and those of them that were right."""
        return self._counts.draft_n, self._counts.draft_n_accepted

    def take_tokens(self, instants: list[int], datas: list[bytes], start: int) -> int:
        """Adds the data of events from ``start`` on while each is text alone; where that ends."""
        if self.done:
            return len(datas)
        texts = token_texts(datas, start)
        end = start + len(texts)
        if texts:
            self.texts += texts
            self.contents += texts
            self.text_ns += instants[start:end]
            if self.first_choices_ns is None:
                self.first_choices_ns = instants[start]
            if self.first_content_ns is None:
                self.first_content_ns = instants[start]
        return end

    def take_plain(self, t_ns: int, data: bytes) -> bool:
        """Adds the data of one event if it is of the common kind; whether it was."""
        chunk = common_chunk(data)
        if chunk is None:
            return False
        self._take_chunk(t_ns, chunk)
        return True

    def take(self, t_ns: int, event: SseEvent, *, at_end: bool = False) -> None:
        """Adds one event; ``at_end`` when only the end of the stream brought it out."""
        data = event.data.strip()
        if self.done:
            return
        if data == "[DONE]":
            self.done = True
        elif event.type.lower() == "error":
            self.error = self.error or shortened(_bare_error(data)) or "error"
        else:
            self._take_data(t_ns, data, at_end=at_end, named=event.type != "message")

    def _take_data(self, t_ns: int, data: str, *, at_end: bool, named: bool) -> None:
        try:
            chunk = parse_chunk(data)
        except ValueError as error:
            if "\n" in data:
                self._take_lines(t_ns, data, at_end=at_end)
            elif at_end:
                self.cut = True
            elif not named:  # an event with a name of its own (a ping) may carry anything
                self.bad_json = self.bad_json or shortened(f"{error}: {data}")
        else:
            self._take_chunk(t_ns, chunk)

    def _take_lines(self, t_ns: int, data: str, *, at_end: bool) -> None:
        """Some servers leave out the empty line between events, before ``[DONE]`` above all."""
        for line in filter(str.strip, data.split("\n")):
            self.take(t_ns, SseEvent(line), at_end=at_end)

    def _take_chunk(self, t_ns: int, chunk: Chunk) -> None:
        if chunk.text:
            self.texts.append(chunk.text)
            self.text_ns.append(t_ns)
            if chunk.counts is not None and chunk.counts.completion_tokens is not None:
                self.text_counts.append(chunk.counts.completion_tokens)
        if chunk.content:
            self.contents.append(chunk.content)
            if self.first_content_ns is None:
                self.first_content_ns = t_ns
        if chunk.choices and self.first_choices_ns is None:
            self.first_choices_ns = t_ns
        if chunk.finish_reason:
            self.finish_reason = self.finish_reason or shortened(chunk.finish_reason)
        if chunk.error:
            self.error = self.error or shortened(chunk.error)
        if chunk.calls:
            self._take_calls(chunk.calls)
        if chunk.counts is not None:
            self._counts = _newest(chunk.counts, self._counts)

    def _take_calls(self, parts: Iterable[CallPart]) -> None:
        """Parts belong together by number; another id under the same number is another call."""
        for part in parts:
            call = self._calls.get(part.index)
            if call is None or (part.id and call.id and part.id != call.id):
                call = self._calls[part.index] = ToolCall()
                self.tool_calls.append(call)
            call.id = call.id or part.id
            call.name = call.name or part.name
            call.arguments += part.arguments


def _newest(new: Counts, old: Counts) -> Counts:
    """The last word on a count stands: with continuous usage every chunk has one."""
    return Counts(
        *(
            before if now is None else now
            for now, before in zip(_fields(new), _fields(old), strict=True)
        )
    )


def _fields(counts: Counts) -> tuple[int | None, ...]:
    return tuple(getattr(counts, name) for name in counts.__struct_fields__)


def _bare_error(data: str) -> str:
    """Message of an error event: an error object, or one wrapped in ``{"error": ...}``."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if isinstance(body, dict) and body.get("error"):
        body = body["error"]
    return error_message(body)
