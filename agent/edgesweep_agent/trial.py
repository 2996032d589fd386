"""The first completion: whether a server that answers plain questions generates, too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import httpx

from . import questions
from .core.exchange import Exchange
from .core.stream import to_sample
from .reach import unreached
from .target import CHAT_PATH
from .workloads.words import prompt

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep.records import Sample

    from .core.answers import Reply
    from .core.unreached import Unreached
    from .target import Target

TIMEOUT_S = 120.0
"""The first completion after a start may compile or page in the whole model."""
TELL_AFTER_S = 5.0
"""What takes longer is told while it is waited for."""
WORDS = 32


async def complete(
    client: httpx.AsyncClient,
    target: Target,
    *,
    timeout_s: float,
    tell_after_s: float = TELL_AFTER_S,
    slow: Callable[[str, float], object],
) -> Reply | Unreached:
    """One request as the measured ones will be, for one token.

    Args:
        client: To ask through.
        target: The server.
        timeout_s: For the whole answer.
        tell_after_s: What takes no longer is not told.
        slow: Told every second, in the same words, what takes long, and for how many seconds.
    """
    nonce = f"trial-{time.monotonic_ns()}"
    said = {"role": "user", "content": prompt(nonce, 0, WORDS)}
    body = target.body([said], max_tokens=1, nonce=nonce)
    began = time.monotonic()

    async def tell() -> None:
        await anyio.sleep(tell_after_s)
        while True:
            slow("asked for a first token, which has not come yet", time.monotonic() - began)
            await anyio.sleep(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tell)
        found = await _post(client, target.url + CHAT_PATH, body, timeout_s)
        tasks.cancel_scope.cancel()
    return found


async def _post(
    client: httpx.AsyncClient, where: str, body: bytes, timeout_s: float
) -> Reply | Unreached:
    try:
        return await questions.post(client, where, body, timeout_s)
    except httpx.HTTPError as error:
        return unreached(error)


def as_sample(reply: Reply) -> Sample:
    """What came, judged as a measured request is."""
    now = time.monotonic_ns()
    exchange = Exchange(
        index=0,
        t_sched_ns=now,
        t_send_ns=now,
        t_headers_ns=now,
        status=reply.status,
        headers=tuple(reply.headers.items()),
        pieces=((now, reply.text.encode()),),
        t_end_ns=now,
        ending="complete",
    )
    return to_sample(exchange, concurrency=1)
