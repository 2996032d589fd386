"""From an address to something that can be measured: what is there, is it ready, which model.

Everything that asks the server a question before the measuring lives here. Questions go
through httpx, off the measuring path.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import httpx

from .core import readiness
from .core.answers import Reply, models_of
from .core.exchange import Exchange
from .core.readiness import READY, Readiness, State
from .core.stream import to_sample
from .engines import registry
from .errors import EngineError, UsageError
from .workloads import chat

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep.records import Sample

    from .core.answers import Answers
    from .engines.base import Engine, Facts

CHAT_PATH = "/v1/chat/completions"
QUESTION_TIMEOUT_S = 5.0
TRIAL_TIMEOUT_S = 120.0
"""The first completion after a start may compile or page in the whole model."""
ASK_AGAIN_S = 0.5
_TRIAL_WORDS = 32
_ANY_MODEL = "default"
"""What a server without a listing is asked for: it has one model, and most do not look."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a server.

    Attributes:
        loading_s: While it says that it is loading.
        refused_s: While nothing listens: a server may not even listen until it is ready.
        alive: Says how a managed server died, as soon as it has.
    """

    loading_s: float = 120.0
    refused_s: float = 0.0
    alive: Callable[[], str | None] = field(default=lambda: None)


@dataclass(frozen=True, slots=True)
class Target:
    """A server that answered a completion and can be measured.

    Attributes:
        overhead_tokens: What the chat template adds to a prompt, by the server's own count.
        ready_s: From the first question to the first answer.
    """

    url: str
    engine: Engine
    facts: Facts
    model: str
    api_key: str | None
    overhead_tokens: int = 0
    ready_s: float = 0.0

    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return _headers(self.api_key)

    def body(self, text: str, output_tokens: int) -> bytes:
        """One streamed, greedy chat request as bytes."""
        return json.dumps(
            {
                "model": self.model,
                "messages": [{"role": "user", "content": text}],
                "max_tokens": output_tokens,
                "temperature": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
                **self.engine.body_fields(),
            }
        ).encode()

    def prompt(self, seed: str, index: int, prompt_tokens: int) -> str:
        """A prompt that comes to about ``prompt_tokens`` with the template's own tokens."""
        return chat.prompt(seed, index, max(1, prompt_tokens - self.overhead_tokens))


def normalise(url: str) -> str:
    """The root of a server from what people paste: with or without ``/v1`` or a path below.

    Raises:
        UsageError: not an http(s) address, or one that carries a secret.
    """
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname)
        # Both are checked only when they are asked for.
        fits = known and (parts.port or 1) and bool((parts.hostname or "").encode("idna"))
    except ValueError:
        fits = False
    if not fits or not text.isprintable() or " " in text:
        raise UsageError(f"{url!r} is no http:// or https:// address")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            "an address goes into every record: put a secret into a file (--api-key-file), and "
            "give the address without user, query and fragment"
        )
    path = parts.path.rstrip("/")
    for suffix in (CHAT_PATH, "/v1/completions", "/v1/models", "/v1"):
        path = path.removesuffix(suffix)
    return f"{parts.scheme}://{parts.netloc}{path}"


async def attach(
    url: str,
    *,
    model: str | None = None,
    api_key: str | None = None,
    patience: Patience | None = None,
    waiting: Callable[[str, float], None] = lambda _text, _seconds: None,
) -> Target:
    """Wait until the server at ``url`` answers one tiny completion.

    Args:
        url: The server's root.
        model: Its model, needed when it lists several or none.
        api_key: Sent as a bearer token.
        patience: How long "not yet" is taken for an answer.
        waiting: Told what is waited for, and how long already.

    Raises:
        EngineError: nobody there, not ready in time, or no such API; says what to do.
        UsageError: the model is not there, or has to be named.
    """
    bound = patience or Patience()
    started = time.monotonic()
    async with httpx.AsyncClient(headers=_headers(api_key), trust_env=False) as client:
        while True:
            found = await _try(client, url, model, api_key, started)
            if isinstance(found, Target):
                return found
            waited = time.monotonic() - started
            _give_up_if(found, bound, waited)
            waiting(found.text, waited)
            await anyio.sleep(ASK_AGAIN_S)


async def look(url: str, *, api_key: str | None = None) -> tuple[Engine, Facts]:
    """What is at ``url``, without asking it to generate anything.

    Raises:
        EngineError: nothing answers there, or what answers is no such API.
    """
    async with httpx.AsyncClient(headers=_headers(api_key), trust_env=False) as client:
        answers = await _ask_all(client, url)
    verdict = readiness.of_listing(url, answers)
    if verdict is not READY:
        raise EngineError(verdict.text)
    return registry.recognise(answers)


async def _try(
    client: httpx.AsyncClient, url: str, model: str | None, api_key: str | None, started: float
) -> Target | Readiness:
    answers = await _ask_all(client, url)
    verdict = readiness.of_listing(url, answers)
    if verdict is not READY:
        return verdict
    engine, facts = registry.recognise(answers)
    target = Target(url, engine, facts, _choose(url, model, answers), api_key)
    reply = await _complete(client, target)
    sample = None if reply is None else _as_sample(reply)
    if reply is not None and _is_unknown_model(reply, answers):
        raise UsageError(_unknown_model(url, target.model, models_of(answers)))
    verdict = readiness.of_completion(url, reply, sample)
    if sample is None or verdict is not READY:
        return verdict
    overhead = max(0, (sample.prompt_tokens or _TRIAL_WORDS) - _TRIAL_WORDS)
    return replace(target, overhead_tokens=overhead, ready_s=time.monotonic() - started)


def _give_up_if(verdict: Readiness, patience: Patience, waited_s: float) -> None:
    died = patience.alive()
    if died is not None:
        raise EngineError(f"the engine ended while it was starting: {died}")
    bounds = {State.LOADING: patience.loading_s, State.REFUSED: patience.refused_s}
    bound = bounds.get(verdict.state, 0.0)
    if waited_s < bound:
        return
    after = f" after {waited_s:.0f} s; give it longer with --wait SECONDS" if bound else ""
    raise EngineError(verdict.text + after)


def _choose(url: str, model: str | None, answers: Answers) -> str:
    listed = models_of(answers)
    if model is not None:
        if listed and model not in listed:
            raise UsageError(_unknown_model(url, model, listed))
        return model
    entries = answers["/v1/models"].json_object().get("data")
    if not isinstance(entries, list):
        return _ANY_MODEL
    if listed and len(entries) == 1:
        return listed[0]
    has = f"has several models: {', '.join(listed)}" if listed else "lists no model"
    raise UsageError(f"{url} {has}; name one with --model")


def _is_unknown_model(reply: Reply, answers: Answers) -> bool:
    """Whether a server that has the API says that it does not have the model."""
    lists = "data" in answers["/v1/models"].json_object()
    return reply.status == 404 and lists and not reply.is_html


def _unknown_model(url: str, model: str, listed: tuple[str, ...]) -> str:
    have = f"it has {', '.join(listed)}" if listed else "it lists none"
    return f"{url} has no model {model!r}; {have}: correct --model"


async def _ask_all(client: httpx.AsyncClient, url: str) -> Answers:
    answers: Answers = {}

    async def get(path: str) -> None:
        try:
            response = await client.get(url + path, timeout=QUESTION_TIMEOUT_S)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            return
        except httpx.HTTPError:
            # It listens, and says nothing that could be judged.
            answers[path] = Reply(0, {}, "")
            return
        answers[path] = _reply(response)

    async with anyio.create_task_group() as tasks:
        for path in registry.PATHS:
            tasks.start_soon(get, path)
    return answers


async def _complete(client: httpx.AsyncClient, target: Target) -> Reply | None:
    """One request as the measured ones will be, for one token; ``None`` without an answer in time.

    Raises:
        EngineError: what answered does not speak HTTP to the end.
    """
    text = chat.prompt(f"trial/{time.monotonic_ns()}", 0, _TRIAL_WORDS)
    headers = {"Content-Type": "application/json"}
    where = target.url + CHAT_PATH
    try:
        response = await client.post(
            where, content=target.body(text, 1), headers=headers, timeout=TRIAL_TIMEOUT_S
        )
    except (httpx.TimeoutException, httpx.ConnectError):
        return None
    except httpx.HTTPError as error:
        raise EngineError(f"{where}: {error or type(error).__name__}") from error
    return _reply(response)


def _as_sample(reply: Reply) -> Sample:
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


def _reply(response: httpx.Response) -> Reply:
    # The coding is undone already.
    headers = {
        name.lower(): value
        for name, value in response.headers.items()
        if name.lower() != "content-encoding"
    }
    return Reply(response.status_code, headers, response.text)


def _headers(api_key: str | None) -> dict[str, str]:
    return {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
