"""What the scripted engine of ``engine_server`` says, and when; nothing is sent here."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

FAULTS = ("status", "html", "json", "error", "in_band", "reset", "cut", "hang", "silent", "refuse")


@dataclass(frozen=True)
class Response:
    """A response by timetable: raw frames at milliseconds after the request, then the end."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    frames: tuple[tuple[float, bytes], ...] = ()
    body: bytes | None = None
    end: str = "fin"


@dataclass(frozen=True)
class Script:
    """How the engine behaves.

    Attributes:
        ttft_ms: Request to first text; ``tpot_ms`` from token to token.
        tokens: Output tokens; 0 for as many as the request allows (16 if it does not say).
        tokens_per_chunk: Text chunks hold so many.
        role: The opening chunk's content: ``empty``, ``null``, or ``none`` for no such chunk.
        role_ms: When it is sent.
        usage: In its own ``chunk`` (if asked for), in the ``same`` chunk as the finish reason,
            on ``each`` chunk, as llama.cpp's ``timings``, or ``none``.
        reasoning: So many of the chunks, the first ones, carry ``reasoning_content``.
        slots: Requests served at once; the others wait without a byte, and their timetable
            begins when they are served. 0 for no limit.
        loading_s: Answers 503 for so long after its start.
        burst: All in one write, at the end, as a buffering proxy would.
        framing: ``chunked``, or ``close`` for an HTTP/1.0 body that the end of the connection ends.
        gzip: Compresses, flushing after each write.
        ping_ms: A comment line as often, until the first text. 0 for none.
        fault: One of ``FAULTS``. ``status``, ``html`` (200), ``json`` (an unstreamed answer),
            ``error`` (JSON error with status 200) come instead of a stream; ``in_band``,
            ``reset``, ``cut`` (mid-event, connection closed), ``hang`` (silence) after
            ``fault_after`` text chunks; ``silent`` never answers, ``refuse`` closes unanswered.
        fault_every: Only each n-th request fails.
        responses: For the first requests, by order of arrival, instead of all this.
    """

    ttft_ms: float = 20.0
    tpot_ms: float = 5.0
    tokens: int = 0
    tokens_per_chunk: int = 1
    role: str = "empty"
    role_ms: float = 0.0
    usage: str = "chunk"
    reasoning: int = 0
    cached_tokens: int | None = None
    slots: int = 0
    loading_s: float = 0.0
    burst: bool = False
    framing: str = "chunked"
    gzip: bool = False
    ping_ms: float = 0.0
    fault: str = ""
    fault_after: int = 2
    fault_every: int = 1
    status: int = 503
    model: str = "scripted"
    responses: tuple[Response, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The events of one answer with their milliseconds after the request."""

    script: Script
    n: int
    prompt_tokens: int
    chat: bool
    with_usage: bool

    @classmethod
    def of(cls, script: Script, request: dict, *, chat: bool) -> Plan:
        limit = request.get("max_completion_tokens") or request.get("max_tokens")
        limit = limit or script.tokens or 16
        text = request.get("prompt") or " ".join(
            str(message.get("content")) for message in request.get("messages", [])
        )
        asked = request.get("stream_options") or {}
        return cls(
            script, min(script.tokens or limit, limit), len(str(text).split()), chat,
            script.usage != "chunk" or bool(asked.get("include_usage")),
        )  # fmt: skip

    def events(self):
        """(ms, kind, bytes) of each; kinds: role, text, finish, usage, done, ping."""
        script, size = self.script, self.script.tokens_per_chunk
        first_ms = script.ttft_ms
        if self.chat and script.role != "none":
            content = "" if script.role == "empty" else None
            yield script.role_ms, "role", self._choice({"role": "assistant", "content": content}, 0)
        for ping in range(1, int(first_ms / script.ping_ms) + 1 if script.ping_ms else 1):
            yield ping * script.ping_ms, "ping", b": ping\n\n"
        at_ms = first_ms
        for chunk, sent in enumerate(range(0, self.n, size)):
            count = min(size, self.n - sent)
            at_ms = first_ms + chunk * size * script.tpot_ms
            name = "reasoning_content" if chunk < script.reasoning else "content"
            yield at_ms, "text", self._choice({name: "word " * count}, sent + count)
        yield at_ms, "finish", self._choice({}, self.n, finish="length")
        if script.usage in ("chunk", "timings") and self.with_usage:
            yield at_ms, "usage", event({"choices": [], **self._counts(self.n)})
        yield at_ms, "done", b"data: [DONE]\n\n"

    def _choice(self, delta: dict, so_far: int, finish: str | None = None) -> bytes:
        text = "".join(value for key, value in delta.items() if key != "role" and value)
        said = {"delta": delta} if self.chat else {"text": text}
        body = {"model": self.script.model, "choices": [{"index": 0, **said,
                                                         "finish_reason": finish}]}  # fmt: skip
        if self.script.usage == "each" or (self.script.usage == "same" and finish):
            body |= self._counts(so_far)
        return event(body)

    def _counts(self, n: int) -> dict[str, Any]:
        if self.script.usage == "timings":
            cached = self.script.cached_tokens or 0
            return {"timings": {"predicted_n": n, "prompt_n": self.prompt_tokens - cached,
                                "cache_n": cached}}  # fmt: skip
        usage: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": n,
            "total_tokens": self.prompt_tokens + n,
        }
        if self.script.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.script.cached_tokens}
        return {"usage": usage}


def event(body: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"
