"""Exchanges as an engine would stream them, at milliseconds after the send."""

from __future__ import annotations

import json

from edgesweep_agent.core.exchange import Exchange
from edgesweep_agent.core.stream import to_sample

MS = 1_000_000
T0 = 5_000 * MS
STREAM = (("content-type", "text/event-stream"),)


def exchange(frames, *, status=200, headers=STREAM, ending="complete", index=0, error=""):
    """Frames are (milliseconds after the send, bytes)."""
    pieces = tuple((T0 + ms * MS, data) for ms, data in frames)
    t_end_ns = pieces[-1][0] + MS if pieces else T0 + MS
    return Exchange(
        index, T0 - 2 * MS, T0, T0 + MS if status else None, status, tuple(headers), pieces,
        t_end_ns, ending, error,
    )  # fmt: skip


def sample(frames, *, keep_text=True, **kwargs):
    return to_sample(exchange(frames, **kwargs), concurrency=1, keep_text=keep_text)


def event(**body) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def delta(finish=None, **fields) -> bytes:
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


def usage(n, prompt=10, **more) -> bytes:
    return event(choices=[], usage={"prompt_tokens": prompt, "completion_tokens": n, **more})


DONE = b"data: [DONE]\n\n"
GOOD = [(100, delta(content="a")), (150, delta(content="b", finish="stop")), (151, usage(2) + DONE)]
