"""Questions to a server through httpx, off the measuring path: bounded in time and in bytes."""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import httpx

from .core.answers import Reply
from .core.unreached import Cause, Unreached
from .reach import NO_END, port_of, unreached

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .core.answers import Answers
    from .engines.base import Step

TIMEOUT_S = 5.0
_SLACK_S = 0.1
"""The whole is bounded later than its parts: of a timeout the library then says of what."""
MAX_BYTES = 8 << 20
"""More than the longest listing or exposition; what is longer is left unread."""
COUNTING_AT_ONCE = 4
"""Questions for prompt lengths in flight: a server's request threads may be few."""


def client(
    url: str, api_key: str | None, transport: httpx.AsyncBaseTransport | None = None
) -> httpx.AsyncClient:
    """A client for the questions to one server.

    Args:
        url: The server's root.
        api_key: Sent as a bearer token.
        transport: Instead of the network.
    """
    return httpx.AsyncClient(
        headers=bearer(api_key),
        trust_env=False,
        transport=transport,
        verify=_trusted() if url.startswith("https:") else False,
    )


def _trusted() -> ssl.SSLContext:
    """The system's authorities, or those of ``SSL_CERT_FILE``: as the measured requests have it.

    Only where they are needed: loading them takes a small device a quarter of a second.
    """
    return ssl.create_default_context()


def bearer(api_key: str | None) -> dict[str, str]:
    """The headers that show an API key."""
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}


async def ask_all(
    client: httpx.AsyncClient, url: str, paths: Iterable[str], timeout_s: float = TIMEOUT_S
) -> Answers:
    """GET each of ``paths`` at the same time; one that nobody answers is missing."""
    answers, _ = await ask_each(client, url, paths, timeout_s)
    return answers


async def ask_each(
    client: httpx.AsyncClient, url: str, paths: Iterable[str], timeout_s: float = TIMEOUT_S
) -> tuple[Answers, dict[str, Unreached]]:
    """As :func:`ask_all`, and by path why there is no answer to what has none."""
    answers: Answers = {}
    silent: dict[str, Unreached] = {}

    async def get(path: str) -> None:
        found = await _get(client, url + path, timeout_s)
        if isinstance(found, Unreached):
            silent[path] = found
        if (reply := _as_reply(found)) is not None:
            answers[path] = reply

    async with anyio.create_task_group() as tasks:
        for path in paths:
            tasks.start_soon(get, path)
    return answers, silent


async def ask(client: httpx.AsyncClient, where: str, timeout_s: float = TIMEOUT_S) -> Reply | None:
    """GET one address; it never raises.

    Returns:
        ``None`` if nobody listens, or hangs up without a word; a reply with status 0 if what
        listens says nothing in time, or nothing that is HTTP, which is then its text.
    """
    return _as_reply(await _get(client, where, timeout_s))


async def _get(client: httpx.AsyncClient, where: str, timeout_s: float) -> Reply | Unreached:
    try:
        return await _fetch(client, client.build_request("GET", where), timeout_s)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return unreached(error)


def _as_reply(found: Reply | Unreached) -> Reply | None:
    if isinstance(found, Reply):
        return found
    if found.cause is Cause.SILENT:
        return Reply(0, {}, "")
    return Reply(0, {}, found.said) if found.cause is Cause.NO_HTTP else None


async def other_scheme(client: httpx.AsyncClient, url: str) -> str:
    """The same port by https for http, or the other way round, if HTTP is answered there; or ""."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    scheme = "http" if parts.scheme == "https" else "https"
    other = f"{scheme}://{host}:{port_of(url)}{parts.path}"
    request = client.build_request("GET", f"{other}/health")
    # Not to whoever is there, whom nobody has vouched for.
    request.headers.pop("Authorization", None)
    try:
        await _fetch(client, request, TIMEOUT_S)
    except httpx.HTTPError:
        return ""
    return other


async def post(
    client: httpx.AsyncClient, where: str, body: Mapping[str, object] | bytes, timeout_s: float
) -> Reply:
    """POST a JSON body.

    Raises:
        httpx.HTTPError: there is no answer, or none in time.
    """
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = client.build_request("POST", where, content=content, headers=headers)
    return await _fetch(client, request, timeout_s)


async def count(
    client: httpx.AsyncClient, url: str, model: str, way: tuple[Step, ...], texts: Sequence[str]
) -> list[int] | None:
    """What ``way`` counts for each of ``texts``, a few at a time.

    Returns:
        ``None`` as soon as one of them has no answer.
    """
    counts: dict[int, int] = {}
    limiter = anyio.CapacityLimiter(COUNTING_AT_ONCE)

    async def one(index: int, text: str) -> None:
        async with limiter:
            length = await _follow(client, url, model, way, text)
        if length is None:
            tasks.cancel_scope.cancel()
        else:
            counts[index] = length

    async with anyio.create_task_group() as tasks:
        for index, text in enumerate(texts):
            tasks.start_soon(one, index, text)
    return [counts[index] for index in range(len(texts))] if len(counts) == len(texts) else None


async def _follow(
    client: httpx.AsyncClient, url: str, model: str, way: tuple[Step, ...], text: str
) -> int | None:
    value: str | int | None = text
    for step in way:
        try:
            reply = await post(client, url + step.path, step.body(model, str(value)), TIMEOUT_S)
        except httpx.HTTPError:
            return None
        value = step.read(reply)
        if value is None:
            return None
    return value if isinstance(value, int) else None


async def _fetch(client: httpx.AsyncClient, request: httpx.Request, timeout_s: float) -> Reply:
    request.extensions["timeout"] = httpx.Timeout(timeout_s).as_dict()
    response: httpx.Response | None = None
    try:
        # httpx bounds the wait for each piece: a server that drips would be waited for without end.
        with anyio.fail_after(timeout_s + _SLACK_S):
            response = await client.send(request, stream=True)
            try:
                text = await _text(response)
            finally:
                await response.aclose()
    except (httpx.ReadTimeout, TimeoutError) as error:
        missing = "no byte" if response is None else NO_END
        raise httpx.ReadTimeout(missing, request=request) from error
    # The coding is undone already.
    headers = {
        name.lower(): value
        for name, value in response.headers.items()
        if name.lower() != "content-encoding"
    }
    return Reply(response.status_code, headers, text)


async def _text(response: httpx.Response) -> str:
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > MAX_BYTES:
            return ""
        pieces.append(piece)
    return b"".join(pieces).decode(response.charset_encoding or "utf-8", "replace")
