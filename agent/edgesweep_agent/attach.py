"""From an address to something that can be measured: what is there, is it ready, which model.

Everything that asks the server a question before the measuring lives here. Questions go
through httpx, off the measuring path.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import httpx

from . import questions
from .core import readiness
from .core.answers import models_of
from .core.counters import MetricsState, silent
from .core.exchange import Exchange
from .core.readiness import READY, Readiness, State
from .core.stream import to_sample
from .engines import registry
from .errors import EngineError, UsageError
from .target import CHAT_PATH, Target
from .workloads.words import prompt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from edgesweep.records import Sample

    from .core.answers import Answers, Reply
    from .core.counters import Counters
    from .engines.base import Engine, Facts

TRIAL_TIMEOUT_S = 120.0
"""The first completion after a start may compile or page in the whole model."""
SCRAPE_TIMEOUT_S = 2.0
"""Old llama.cpp answers once the running step is done; a later answer is of no use."""
ASK_AGAIN_S = 0.5
_CLOSED = frozenset({404, 405, 501})
"""No such path, or switched off: that does not change while a server runs."""
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
        clock: Monotonic seconds.
        sleep: Passes the time between two questions.
    """

    loading_s: float = 120.0
    refused_s: float = 0.0
    alive: Callable[[], str | None] = field(default=lambda: None)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep


@dataclass(frozen=True, slots=True)
class Seen:
    """What is at an address, without anything having been generated."""

    engine: Engine
    facts: Facts
    model: str | None
    counters: Counters


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
    return f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}"


async def attach(
    url: str,
    *,
    model: str | None = None,
    engine: str | None = None,
    api_key: str | None = None,
    patience: Patience | None = None,
    waiting: Callable[[str, float], None] = lambda _text, _seconds: None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Target:
    """Wait until the server at ``url`` answers one tiny completion.

    Args:
        url: The server's root.
        model: Its model, needed when it lists several or none.
        engine: Which engine it is, if the user knows; otherwise it is found out.
        api_key: Sent as a bearer token.
        patience: How long "not yet" is taken for an answer.
        waiting: Told what is waited for, and how long already.
        transport: Instead of the network.

    Raises:
        EngineError: nobody there, not ready in time, or no such API; says what to do.
        UsageError: the model is not there, or has to be named.
    """
    bound = patience or Patience()
    started = bound.clock()
    wanted = _Wanted(url, model, engine, api_key, lambda: bound.clock() - started)
    async with questions.client(url, api_key, transport) as client:
        while True:
            found = await _try(client, wanted)
            if isinstance(found, Target):
                return found
            waited = wanted.waited()
            _give_up_if(found, bound, waited)
            waiting(found.text, waited)
            await bound.sleep(ASK_AGAIN_S)


async def look(
    url: str,
    *,
    model: str | None = None,
    api_key: str | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Seen:
    """What is at ``url``, without asking it to generate anything.

    Args:
        url: The server's root.
        model: Whose facts are asked for, where it has several.
        api_key: Sent as a bearer token.
        transport: Instead of the network.

    Raises:
        EngineError: nothing answers there, or what answers is no such API.
        UsageError: it has no such model.
    """
    async with questions.client(url, api_key, transport) as client:
        answers = await questions.ask_all(client, url, registry.PATHS)
        verdict = readiness.of_listing(url, answers)
        if verdict is not READY:
            raise EngineError(verdict.text)
        engine, facts = registry.recognise(answers, model)
        if model is not None:
            _choose(url, model, answers)
            engine = engine.bound(model)
            answers |= await questions.ask_all(client, url, set(engine.paths) - set(registry.PATHS))
            facts = replace(engine.facts(answers, model), evidence=facts.evidence)
        rest = set(engine.scrape_paths) - set(answers)
        answers |= await questions.ask_all(client, url, rest)
    shown = model or next(iter(facts.models), None)
    return Seen(engine, facts, shown, engine.counters(answers))


async def scrape(
    target: Target, client: httpx.AsyncClient | None = None, closed: set[str] | None = None
) -> Counters:
    """What the engine counts just now: one attempt, which never raises.

    Args:
        target: The server.
        client: One to reuse (:func:`questions.client`), where it is asked often.
        closed: Paths that it has said it does not have: added to, and not asked again.
    """
    engine = target.engine
    answers: Answers = {}
    told = silent(MetricsState.ABSENT, f"{engine.name} tells no figures")
    async with _client(target, client) as asking:
        for path in engine.scrape_paths:
            if closed is not None and path in closed:
                continue
            answers |= await questions.ask_all(asking, target.url, (path,), SCRAPE_TIMEOUT_S)
            if closed is not None and path in answers and answers[path].status in _CLOSED:
                closed.add(path)
            told = engine.counters(answers)
            if told.metrics_state is MetricsState.OK:
                break
    return told


async def count_prompt_tokens(
    target: Target, texts: Sequence[str], client: httpx.AsyncClient | None = None
) -> list[int] | None:
    """The exact lengths in tokens of ``texts`` as chat prompts, by the engine's own count.

    Each is counted as the one message of a user, with all that the chat template adds.

    Returns:
        One length for each text, or ``None`` if the engine has no way to tell, or one failed.
    """
    counting = target.engine.counting()
    async with _client(target, client) as asking:
        for way in counting.ways if counting else ():
            counts = await questions.count(asking, target.url, target.model, way, texts)
            if counts is not None:
                return counts
    return None


@dataclass(frozen=True, slots=True)
class _Wanted:
    url: str
    model: str | None
    engine: str | None
    api_key: str | None
    waited: Callable[[], float]


async def _try(client: httpx.AsyncClient, wanted: _Wanted) -> Target | Readiness:
    url = wanted.url
    answers = await questions.ask_all(client, url, readiness.PATHS)
    verdict = readiness.of_listing(url, answers)
    if verdict is not READY:
        return verdict
    rest = set(registry.PATHS) - set(readiness.PATHS)
    answers |= await questions.ask_all(client, url, rest)
    engine, facts = registry.recognise(answers, wanted.model, named=wanted.engine)
    model = _choose(url, wanted.model, answers, must_be_named=facts.needs_model)
    target = Target(url, engine.bound(model), facts, model, wanted.api_key)
    reply = await _complete(client, target)
    sample = None if reply is None else _as_sample(reply)
    if reply is not None and _is_unknown_model(reply, answers):
        raise UsageError(_unknown_model(url, target.model, models_of(answers)))
    verdict = readiness.of_completion(url, reply, sample)
    if sample is None or verdict is not READY:
        return verdict
    overhead = max(0, (sample.prompt_tokens or _TRIAL_WORDS) - _TRIAL_WORDS)
    target = replace(target, overhead_tokens=overhead, ready_s=wanted.waited())
    # The completion may have loaded the model that the facts are about.
    anew = await questions.ask_all(client, url, target.engine.paths)
    answers |= {path: reply for path, reply in anew.items() if reply.status}
    facts = target.engine.facts(answers, model)
    return replace(target, facts=replace(facts, evidence=target.facts.evidence))


def _client(
    target: Target, client: httpx.AsyncClient | None
) -> httpx.AsyncClient | nullcontext[httpx.AsyncClient]:
    """The caller's client, left open, or one for now."""
    return questions.client(target.url, target.api_key) if client is None else nullcontext(client)


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


def _choose(url: str, model: str | None, answers: Answers, *, must_be_named: bool = False) -> str:
    listed = models_of(answers)
    if model is not None:
        if listed and model not in listed:
            raise UsageError(_unknown_model(url, model, listed))
        return model
    if must_be_named:
        raise UsageError(
            f"{url} is a router, which loads a model when it is asked for: name one with --model "
            f"(it lists {', '.join(listed) or 'none'})"
        )
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


async def _complete(client: httpx.AsyncClient, target: Target) -> Reply | None:
    """One request as the measured ones will be, for one token; ``None`` without an answer in time.

    Raises:
        EngineError: what answered does not speak HTTP to the end.
    """
    nonce = f"trial-{time.monotonic_ns()}"
    where = target.url + CHAT_PATH
    said = {"role": "user", "content": prompt(nonce, 0, _TRIAL_WORDS)}
    body = target.body([said], max_tokens=1, nonce=nonce)
    try:
        return await questions.post(client, where, body, TRIAL_TIMEOUT_S)
    except (httpx.TimeoutException, httpx.ConnectError, TimeoutError):
        return None
    except httpx.HTTPError as error:
        raise EngineError(f"{where}: {error or type(error).__name__}") from error


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
