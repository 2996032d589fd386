"""Levels for the load generator, against the scripted engine."""

from __future__ import annotations

import asyncio
import json

import msgspec

from edgesweep_agent.core.exchange import Exchange
from edgesweep_agent.core.stream import to_sample
from edgesweep_agent.loadgen.frames import ENDED, EXCHANGE, Ended, FrameReader
from edgesweep_agent.loadgen.job import LevelJob
from edgesweep_agent.loadgen.run import LevelRun
from engine_server import EngineServer, Script

SSE = {"content-type": "text/event-stream"}
CHUNK = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
FAST = Script(ttft_ms=1, tpot_ms=1, tokens=3)


def body(n: int, tokens: int = 0) -> bytes:
    asked = {"max_tokens": tokens} if tokens else {}
    return json.dumps(
        {"user": str(n), "messages": [{"role": "user", "content": "a b"}], "stream": True,
         "stream_options": {"include_usage": True}, **asked}
    ).encode()  # fmt: skip


def job(url: str, n: int = 1, *, concurrency: int = 1, warmup: int = 0, **fields) -> LevelJob:
    scheme, _, rest = url.partition("://")
    host, _, port = rest.rpartition(":")
    known = {
        "request_timeout_s": 20.0, "host": host.strip("[]"), "path": "/v1/chat/completions",
    } | fields  # fmt: skip
    return LevelJob(
        scheme=scheme, port=int(port), bodies=[body(i) for i in range(n)],
        warmup_bodies=[body(-1)] * warmup, concurrency=concurrency, **known,
    )  # fmt: skip


def fly(script=FAST, n=1, *, server=(), **fields):
    """Runs a level in this process, beside the server: (samples, Ended, server, exchanges)."""
    frames = bytearray()

    async def main():
        async with EngineServer(script, **dict(server)) as engine:
            await LevelRun(job(engine.url, n, **fields), frames.extend).run()
            return engine

    engine = asyncio.run(main())
    found = list(FrameReader().feed(bytes(frames)))
    exchanges = [msgspec.msgpack.decode(b, type=Exchange) for kind, b in found if kind == EXCHANGE]
    exchanges.sort(key=lambda exchange: exchange.index)
    assert found[-1][0] == ENDED
    ended = msgspec.msgpack.decode(found[-1][1], type=Ended)
    return (
        [to_sample(e, concurrency=1, keep_text=True) for e in exchanges],
        ended,
        engine,
        exchanges,
    )
