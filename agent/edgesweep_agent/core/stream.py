"""A finished exchange becomes a sample: what is measured of one request, or why it failed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from edgesweep.records import Sample

from .chunk import error_message
from .exchange import Ending, Exchange
from .inflate import CodingError, decoded
from .sse import SseReader
from .transcript import Transcript, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Ending", "Exchange", "to_sample"]

_HTTP_OK = 200
_SECOND_NS = 1_000_000_000
_READ_BYTES = 65536
"""A burst may need one read for each of these, and is still one burst."""
_BUFFERED_FROM = 3
_SNIPPET_BYTES = 4096
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")
"""How a line of an event stream may begin."""
_REASONS: dict[Ending, str] = {
    "complete": "truncated",
    "eof": "truncated",
    "reset": "connection_reset",
    "timeout": "timeout",
    "refused": "connection_refused",
    "cancelled": "cancelled",
    "malformed": "bad_http",
}

_Pieces = tuple[tuple[int, bytes], ...]
_Verdict = tuple[str, str]


def to_sample(exchange: Exchange, *, concurrency: int, keep_text: bool = False) -> Sample:
    """Reads the stream of an exchange; never raises for anything a server may send.

    The first token is the first chunk whose delta carries text (content, reasoning, tool call):
    vLLM sends an empty role chunk long before (vllm-project/vllm#15106). A failed request keeps
    what was timed until it failed, for people; ``ok`` says not to count it.

    Args:
        exchange: The request and all that came back.
        concurrency: The level it belongs to.
        keep_text: Keep the generated text in the sample.
    """
    return _sample(exchange, _interpreted(exchange), concurrency, keep_text)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What an exchange came to: a transcript if it streamed, and a reason if it failed."""

    reason: str = ""
    detail: str = ""
    transcript: Transcript = field(default_factory=Transcript)
    comments: int = 0
    warnings: tuple[str, ...] = ()


def _interpreted(exchange: Exchange) -> _Reading:
    if exchange.status is None:
        return _Reading(*_unanswered(exchange))
    pieces, broken = _decoded(exchange)
    if exchange.status != _HTTP_OK:
        return _Reading(f"http_{exchange.status}", _snippet(pieces))
    if broken:
        return _Reading("bad_encoding", broken)
    if not _is_stream(exchange, pieces):
        return _Reading(*_plain_verdict(exchange, pieces))
    return _read(exchange, pieces)


def _decoded(exchange: Exchange) -> tuple[_Pieces, str]:
    try:
        return tuple(decoded(exchange.pieces, exchange.header("content-encoding"))), ""
    except CodingError as error:
        return (), shortened(str(error))


def _read(exchange: Exchange, pieces: _Pieces) -> _Reading:
    reader, transcript = SseReader(), Transcript()
    for t_ns, data in pieces:
        for event in reader.feed(data):
            transcript.take(t_ns, event)
    # What only the end brings out had fully arrived with the last piece.
    t_last_ns = pieces[-1][0] if pieces else exchange.t_end_ns
    for event in reader.close():
        transcript.take(t_last_ns, event, at_end=True)
    return _Reading(
        *_stream_verdict(exchange, transcript),
        transcript=transcript,
        comments=reader.comments,
        warnings=_warnings(exchange, transcript),
    )


def _is_stream(exchange: Exchange, pieces: _Pieces) -> bool:
    """Goes by the first bytes where they are plain, and by the header where they are not."""
    head = _head(pieces, 64).removeprefix(b"\xef\xbb\xbf").lstrip()
    labelled = "text/event-stream" in exchange.header("content-type").lower()
    return head.startswith(_FIELDS) or (labelled and head[:1] not in (b"{", b"[", b"<"))


def _head(pieces: _Pieces, limit: int) -> bytes:
    head = bytearray()
    for _, data in pieces:
        head += data[:limit]
        if len(head) >= limit:
            break
    return bytes(head[:limit])


def _unanswered(exchange: Exchange) -> _Verdict:
    if exchange.ending in ("complete", "eof"):
        return "connection_reset", "the server closed the connection before it answered"
    return _REASONS[exchange.ending], shortened(exchange.error)


def _plain_verdict(exchange: Exchange, pieces: _Pieces) -> _Verdict:
    """A 200 that is no event stream: a hidden error, an unstreamed answer, a login page."""
    if exchange.ending not in ("complete", "eof"):
        return _REASONS[exchange.ending], shortened(exchange.error)
    try:
        body = json.loads(b"".join(data for _, data in pieces))
    except (ValueError, RecursionError):
        return "not_a_stream", _snippet(pieces)
    message = error_message(body.get("error")) if isinstance(body, dict) else ""
    return ("in_band_error", shortened(message)) if message else ("not_a_stream", _snippet(pieces))


def _stream_verdict(exchange: Exchange, transcript: Transcript) -> _Verdict:
    if transcript.error:
        return "in_band_error", transcript.error
    if transcript.bad_json:
        return "bad_json", transcript.bad_json
    if not transcript.complete:
        return _REASONS[exchange.ending], shortened(exchange.error)
    if not transcript.texts:
        tokens, source = transcript.output_tokens
        return "empty_output", f"{source} counts {tokens} tokens" if source else ""
    return "", ""


def _snippet(pieces: _Pieces) -> str:
    return shortened(_head(pieces, _SNIPPET_BYTES).decode("utf-8", "replace"))


def _warnings(exchange: Exchange, transcript: Transcript) -> tuple[str, ...]:
    """Oddities that cost nothing, but that someone may want to know of."""
    seen = {
        "content_type": "text/event-stream" not in exchange.header("content-type").lower(),
        "no_done": bool(transcript.finish_reason) and not transcript.done,
        "cut_after_finish": transcript.complete and transcript.cut,
        f"ended_by_{exchange.ending}": transcript.complete
        and exchange.ending not in ("complete", "eof"),
    }
    return tuple(name for name, is_seen in seen.items() if is_seen)


def _is_buffered(pieces: _Pieces, text_ns: Sequence[int], tokens: int) -> bool:
    """All text came in one burst, as a buffering proxy delivers it: no gap means anything."""
    if len(text_ns) < _BUFFERED_FROM or tokens < _BUFFERED_FROM:
        return False
    return len(set(text_ns)) <= 1 + sum(len(data) for _, data in pieces) // _READ_BYTES


def _seconds(start_ns: int | None, end_ns: int | None, parts: int = 1) -> float | None:
    """The exact difference, rounded once: integers until the last division."""
    if start_ns is None or end_ns is None:
        return None
    return (end_ns - start_ns) / (parts * _SECOND_NS)


def _tpot_s(text_ns: Sequence[int], tokens: int) -> float | None:
    """``None`` when all text has one instant too: a zero would pass every upper bound."""
    if tokens < 2 or not text_ns or text_ns[0] == text_ns[-1]:
        return None
    return _seconds(text_ns[0], text_ns[-1], tokens - 1)


def _sample(exchange: Exchange, read: _Reading, concurrency: int, keep_text: bool) -> Sample:
    transcript = read.transcript
    sent_ns, text_ns = exchange.t_send_ns, transcript.text_ns
    tokens, source = transcript.output_tokens
    buffered = _is_buffered(exchange.pieces, text_ns, tokens or 0)
    t_send_ns = exchange.t_end_ns if sent_ns is None else sent_ns
    return Sample(
        concurrency=concurrency,
        index=exchange.index,
        ok=not read.reason,
        reason=read.reason,
        detail=read.detail,
        ttft_s=_seconds(sent_ns, text_ns[0]) if text_ns else None,
        ttfr_s=_seconds(sent_ns, transcript.first_choices_ns),
        first_content_s=_seconds(sent_ns, transcript.first_content_ns),
        tpot_s=None if buffered else _tpot_s(text_ns, tokens or 0),
        e2e_s=_seconds(sent_ns, text_ns[-1]) if text_ns else None,
        queue_s=_seconds(exchange.t_sched_ns, sent_ns),
        prompt_tokens=transcript.prompt_tokens,
        cached_tokens=transcript.cached_tokens,
        output_tokens=tokens,
        token_source=source,
        chunks=len(text_ns),
        comments=read.comments,
        icl_s=() if buffered else tuple((b - a) / _SECOND_NS for a, b in pairwise(text_ns)),
        flags=("stream_buffered",) if buffered else (),
        warnings=read.warnings,
        finish_reason=transcript.finish_reason,
        text=transcript.text if keep_text else "",
        t_send_ns=t_send_ns,
        t_end_ns=exchange.t_end_ns,
        text_ns=tuple(t_ns - t_send_ns for t_ns in text_ns),
    )
