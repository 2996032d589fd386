"""A finished exchange is read: what the model said and when, or why there is nothing to read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .chunk import body_error
from .inflate import CodingError, decoded
from .sse import SseReader, plain_events
from .transcript import ToolCall, Transcript, shortened

if TYPE_CHECKING:
    from .exchange import Ending, Exchange

_HTTP_OK = 200
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


@dataclass(frozen=True, slots=True)
class Interpreted:
    """What an exchange came to: a transcript if it streamed, and a reason if it failed."""

    reason: str = ""
    detail: str = ""
    transcript: Transcript = field(default_factory=Transcript)
    comments: int = 0
    warnings: tuple[str, ...] = ()


def interpret(exchange: Exchange) -> Interpreted:
    """Reads an exchange; never raises for anything a server may send."""
    if exchange.status is None:
        return Interpreted(*_unanswered(exchange))
    pieces, broken = _decoded(exchange)
    if exchange.status != _HTTP_OK:
        return Interpreted(f"http_{exchange.status}", _snippet(pieces))
    if broken:
        return Interpreted("bad_encoding", broken)
    if not _is_stream(exchange, pieces):
        return Interpreted(*_plain_verdict(exchange, pieces))
    return _read(exchange, pieces)


def _decoded(exchange: Exchange) -> tuple[_Pieces, str]:
    try:
        return tuple(decoded(exchange.pieces, exchange.header("content-encoding"))), ""
    except CodingError as error:
        return (), shortened(str(error))


def _read(exchange: Exchange, pieces: _Pieces) -> Interpreted:
    reader, transcript = SseReader(), Transcript()
    plain = plain_events(pieces)
    if plain is None:
        for t_ns, data in pieces:
            _feed(transcript, t_ns, reader, data)
    else:
        _take_plain(transcript, *plain)
    # What only the end brings out had fully arrived with the last piece.
    t_last_ns = pieces[-1][0] if pieces else exchange.t_end_ns
    for event in reader.close():
        transcript.take(t_last_ns, event, at_end=True)
    return Interpreted(
        *_stream_verdict(exchange, transcript),
        transcript=transcript,
        comments=reader.comments,
        warnings=_warnings(exchange, transcript),
    )


def _take_plain(transcript: Transcript, instants: list[int], datas: list[bytes]) -> None:
    at = 0
    while (at := transcript.take_tokens(instants, datas, at)) < len(datas):
        if not transcript.take_plain(instants[at], datas[at]):
            _feed(transcript, instants[at], SseReader(), b"data: %s\n\n" % datas[at])
        at += 1


def _feed(transcript: Transcript, t_ns: int, reader: SseReader, data: bytes) -> None:
    for event in reader.feed(data):
        transcript.take(t_ns, event)


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
    message = body_error(body) if isinstance(body, dict) else ""
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


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said, for a conversation to go on from; with a reason if it failed."""

    reason: str
    content: str
    tool_calls: tuple[ToolCall, ...]


def read_answer(exchange: Exchange) -> Answer:
    """Reads the stream of an exchange for what was said; never raises either."""
    read = interpret(exchange)
    return Answer(read.reason, read.transcript.content, tuple(read.transcript.tool_calls))
