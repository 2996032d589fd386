"""A plain httpx client for the cost comparison: URL STREAMS REQUESTS TOKENS FILE."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import pairwise
from pathlib import Path

import httpx


async def ask(client: httpx.AsyncClient, url: str, tokens: int) -> dict:
    body = {"model": "mock", "messages": [{"role": "user", "content": "a"}], "stream": True,
            "max_tokens": tokens, "stream_options": {"include_usage": True}}  # fmt: skip
    times, texts = [], []
    t_send_ns = time.monotonic_ns()
    async with client.stream("POST", url + "/v1/chat/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            t_ns = time.monotonic_ns()
            for choice in json.loads(line[6:])["choices"]:
                if text := choice["delta"].get("content"):
                    times.append(t_ns)
                    texts.append(text)
    gaps_s = [(b - a) / 1e9 for a, b in pairwise(times)]
    return {"text": "".join(texts), "t_send_ns": t_send_ns, "icl_s": gaps_s,
            "ttft_s": (times[0] - t_send_ns) / 1e9}  # fmt: skip


async def main() -> None:
    url, streams, requests, tokens, path = sys.argv[1:]
    waiting = iter(range(int(requests)))
    samples = []

    async def work(client: httpx.AsyncClient) -> None:
        samples.extend([await ask(client, url, int(tokens)) for _ in waiting])

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits) as client:
        await asyncio.gather(*(work(client) for _ in range(int(streams))))
    Path(path).write_text("".join(json.dumps(sample) + "\n" for sample in samples))


if __name__ == "__main__":
    asyncio.run(main())
