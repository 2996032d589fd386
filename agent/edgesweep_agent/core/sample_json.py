"""A sample as one line of JSON, ``edgesweep.sample/1``: ``null`` is "not measured".

The format is frozen (``edgesweep/schemas/sample.1.schema.json``): keys are only added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgesweep.records import LevelResult, Sample

SCHEMA = "edgesweep.sample/1"


def sample_object(level: LevelResult, sample: Sample, *, keep_text: bool) -> dict[str, Any]:
    """The JSON object of one request of a level; the answer's text only where it is kept.

    Gaps are ``null`` where the stream came buffered; "tool_call_arguments" is there in a
    conversation. Both instants are those of the device's monotonic clock.
    """
    buffered = "stream_buffered" in sample.flags
    line: dict[str, Any] = {
        "schema": SCHEMA,
        "run_id": level.run_id,
        "contender_id": level.contender.id,
        "session": level.session,
        "workload": level.workload.name,
        "concurrency": level.concurrency,
        "attempt": level.attempt,
        "index": sample.index,
        "status": "ok" if sample.ok else "failed",
        "reason": sample.reason,
        "detail": sample.detail,
        "ttft_s": sample.ttft_s,
        "ttfr_s": sample.ttfr_s,
        "first_content_s": sample.first_content_s,
        "tpot_s": sample.tpot_s,
        "e2e_s": sample.e2e_s,
        "queue_s": sample.queue_s,
        "prompt_tokens": sample.prompt_tokens,
        "cached_tokens": sample.cached_tokens,
        "output_tokens": sample.output_tokens,
        "token_source": sample.token_source or None,
        "finish_reason": sample.finish_reason or None,
        "chunks": sample.chunks,
        "icl_s": None if buffered else list(sample.icl_s),
        "itl_s": None if buffered else list(sample.itl_s),
        "part": sample.part or None,
        "chain": sample.chain,
        "step": sample.step,
        "draft_tokens": sample.draft_tokens,
        "accepted_tokens": sample.accepted_tokens,
        "flags": list(sample.flags),
        "warnings": list(sample.warnings),
        "t_send_ns": sample.t_send_ns,
        "t_end_ns": sample.t_end_ns,
    }
    if sample.chain is not None:
        line["tool_call_arguments"] = sample.tool_calls
    if keep_text:
        line["text"] = sample.text
    return line
