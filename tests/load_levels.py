"""Levels for the load generator, against the scripted engine."""

from __future__ import annotations

import asyncio
import json

import msgspec

from edgesweep_agent.core.exchange import Exchange
from edgesweep_agent.core.stream import to_sample
from edgesweep_agent.loadgen.frames import ENDED, EXCHANGE, Ended, FrameReader
from edgesweep_agent.loadgen.job import Endpoint, LevelJob, Track
from edgesweep_agent.loadgen.run import LevelRun
from edgesweep_agent.loadgen.selector import ReadingSelector
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


def job(url: str, n: int = 1, *, bodies=None, concurrency=1, warmup=0, **fields) -> LevelJob:
    """One closed loop to one endpoint, unless the fields say otherwise."""
    known = {
        "request_timeout_s": 20.0,
        "endpoints": [endpoint(url, **{key: fields.pop(key) for key in ("host", "path")
                                       if key in fields})],
        "tracks": [Track(bodies=bodies or [body(i) for i in range(n)], concurrency=concurrency)],
        "warmup_bodies": [body(-1)] * warmup,
        "warmup_burst": concurrency,
    }  # fmt: skip
    return LevelJob(**known | fields)


def endpoint(url: str, **fields) -> Endpoint:
    scheme, _, rest = url.partition("://")
    host, _, port = rest.rpartition(":")
    known = {"host": host.strip("[]"), "path": "/v1/chat/completions"}
    return Endpoint(scheme=scheme, port=int(port), **known | fields)


def in_loop(main, selector):
    """Runs a coroutine in a loop of the kind that the load generator's process has."""
    loop = asyncio.SelectorEventLoop(selector)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


async def frames_of(level_job: LevelJob, selector: ReadingSelector) -> bytes:
    frames = bytearray()
    await LevelRun(level_job, frames.extend, selector).run()
    return bytes(frames)


def outcome(frames: bytes):
    """What a level's frames say: (samples, Ended, exchanges), by index."""
    found = list(FrameReader().feed(frames))
    exchanges = [msgspec.msgpack.decode(b, type=Exchange) for kind, b in found if kind == EXCHANGE]
    exchanges.sort(key=lambda exchange: exchange.index)
    assert found[-1][0] == ENDED
    ended = msgspec.msgpack.decode(found[-1][1], type=Ended)
    return [to_sample(e, concurrency=1, keep_text=True) for e in exchanges], ended, exchanges


def fly(script=FAST, n=1, *, server=(), **fields):
    """Runs a level in this process, beside the server: (samples, Ended, server, exchanges)."""
    selector = ReadingSelector()

    async def main():
        async with EngineServer(script, **dict(server)) as engine:
            return await frames_of(job(engine.url, n, **fields), selector), engine

    frames, engine = in_loop(main(), selector)
    samples, ended, exchanges = outcome(frames)
    return samples, ended, engine, exchanges
