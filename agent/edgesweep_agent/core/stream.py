"""A finished exchange becomes a sample: what is measured of one request, or why it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep.records import Sample

from .interpret import Interpreted, interpret
from .token_gaps import chunk_gaps, token_gaps
from .transcript import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .exchange import Exchange
    from .transcript import Transcript

_SECOND_NS = 1_000_000_000
_READ_BYTES = 65536
"""A burst may need one read for each of these, and is still one burst."""
_BUFFERED_FROM = 3
_CHUNKS_AT_ONCE = 16
"""Text chunks to an instant, on average, that no step of an engine brings: a proxy's blocks."""
_TOKENS_AT_ONCE = 16
_FRONT_SHARE = 0.5
"""So many tokens, and more than this part of the text, at the first instant are no first token."""


def to_sample(
    exchange: Exchange, *, concurrency: int, part: str = "", keep_text: bool = False
) -> Sample:
    """Reads the stream of an exchange; never raises for anything a server may send.

    The first token is the first chunk whose delta carries text (content, reasoning, tool call):
    vLLM sends an empty role chunk long before (vllm-project/vllm#15106). A failed request keeps
    what was timed until it failed, for people; ``ok`` says not to count it.

    Args:
        exchange: The request and all that came back.
        concurrency: The level it belongs to.
        part: The part of the level: its track's name.
        keep_text: Keep the generated text in the sample.
    """
    return _sample(exchange, interpret(exchange), concurrency, part, keep_text=keep_text)


def _is_burst(pieces: Sequence[tuple[int, bytes]], text_ns: Sequence[int], tokens: int) -> bool:
    """All text came in one burst, as a buffering proxy delivers it: no gap means anything."""
    if len(text_ns) < _BUFFERED_FROM or tokens < _BUFFERED_FROM:
        return False
    return len(set(text_ns)) <= 1 + sum(len(data) for _, data in pieces) // _READ_BYTES


def _is_in_blocks(text_ns: Sequence[int]) -> bool:
    """It came block by block, as a proxy with a small buffer delivers it: most gaps are zero."""
    return len(text_ns) >= _CHUNKS_AT_ONCE * max(2, len(set(text_ns)))


def _is_front_loaded(transcript: Transcript, tokens: int) -> bool:
    """Most of the text came first and a trickle after it: the gaps are those of the trickle."""
    text_ns, texts = transcript.text_ns, transcript.texts
    if len(text_ns) < _BUFFERED_FROM:
        return False
    first = len("".join(texts[: text_ns.count(text_ns[0])]))
    share = first / len("".join(texts))
    return share > _FRONT_SHARE and share * tokens >= _TOKENS_AT_ONCE


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


def _sample(
    exchange: Exchange, read: Interpreted, concurrency: int, part: str, *, keep_text: bool
) -> Sample:
    transcript = read.transcript
    sent_ns, text_ns = exchange.t_send_ns, transcript.text_ns
    tokens, source = transcript.output_tokens
    drafted, accepted = transcript.draft_tokens
    burst = _is_burst(exchange.pieces, text_ns, tokens or 0)
    buffered = burst or _is_in_blocks(text_ns) or _is_front_loaded(transcript, tokens or 0)
    icl_s = () if buffered else chunk_gaps(text_ns)
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
        tpot_s=None if burst else _tpot_s(text_ns, tokens or 0),
        e2e_s=_seconds(sent_ns, text_ns[-1]) if text_ns else None,
        queue_s=_seconds(exchange.t_sched_ns, sent_ns),
        prompt_tokens=transcript.prompt_tokens,
        cached_tokens=transcript.cached_tokens,
        output_tokens=tokens,
        token_source=source,
        chunks=len(text_ns),
        comments=read.comments,
        icl_s=icl_s,
        itl_s=() if buffered else _itl_s(transcript, tokens or 0, icl_s),
        part=part,
        chain=exchange.chain if exchange.chain >= 0 else None,
        step=exchange.step if exchange.step >= 0 else None,
        draft_tokens=drafted,
        accepted_tokens=accepted,
        tool_calls=_arguments(transcript) if exchange.chain >= 0 else "",
        flags=("stream_buffered",) if buffered else (),
        warnings=read.warnings,
        finish_reason=transcript.finish_reason,
        text=transcript.text if keep_text else "",
        t_send_ns=t_send_ns,
        t_end_ns=exchange.t_end_ns,
        text_ns=tuple([t_ns - t_send_ns for t_ns in text_ns]),
    )


def _itl_s(transcript: Transcript, tokens: int, icl_s: tuple[float, ...]) -> tuple[float, ...]:
    """With a token a chunk, which is the rule, there is nothing to spread."""
    if tokens == len(transcript.text_ns) and not transcript.text_counts:
        return icl_s
    return token_gaps(transcript.text_ns, tokens, transcript.text_counts)


def _arguments(transcript: Transcript) -> str:
    return joined(call.arguments for call in transcript.tool_calls)
