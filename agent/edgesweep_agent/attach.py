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

from . import questions, reach, trial
from .core import readiness
from .core.answers import models_of
from .core.counters import MetricsState, silent
from .core.readiness import READY, Readiness, State
from .core.unreached import Cause, Unreached, most_telling
from .engines import registry
from .errors import EngineError, UsageError
from .target import CHAT_PATH, Target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import httpx

    from .core.answers import Answers, Reply
    from .core.counters import Counters
    from .engines.base import Engine, Facts

SCRAPE_TIMEOUT_S = 2.0
"""Old llama.cpp answers once the running step is done; a later answer is of no use."""
ASK_AGAIN_S = 0.5
_CLOSED = frozenset({404, 405, 501})
"""No such path, or switched off: that does not change while a server runs."""
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
        answer_s: For the first completion, once it is asked for.
    """

    loading_s: float = 120.0
    refused_s: float = 0.0
    alive: Callable[[], str | None] = field(default=lambda: None)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    answer_s: float = trial.TIMEOUT_S


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
        waiting: Told what is waited for, without the address, and how long already; the same
            words come again for as long as nothing changes.
        transport: Instead of the network.

    Raises:
        EngineError: nobody there, not ready in time, or no such API; says what to do.
        UsageError: the model is not there, or has to be named.
    """
    bound = patience or Patience()
    started = bound.clock()
    wanted = _Wanted(
        url,
        model,
        engine,
        api_key,
        waited=lambda: bound.clock() - started,
        waiting=waiting,
        answer_s=bound.answer_s,
        is_real=transport is None,
    )
    async with questions.client(url, api_key, transport) as client:
        while True:
            found = await _try(client, wanted)
            if isinstance(found, Target):
                return found
            waited = wanted.waited()
            _give_up_if(url, found, bound, waited)
            waiting(found.what, waited)
            await bound.sleep(ASK_AGAIN_S)


async def look(
    url: str,
    *,
    model: str | None = None,
    api_key: str | None = None,
    patience: Patience | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Seen:
    """What is at ``url``, without asking it to generate anything.

    Args:
        url: The server's root.
        model: Whose facts are asked for, where it has several.
        api_key: Sent as a bearer token.
        patience: How long "not yet" is taken for an answer; without, it is asked once.
        transport: Instead of the network.

    Raises:
        EngineError: nothing answers there, or what answers is no such API.
        UsageError: it has no such model.
    """
    async with questions.client(url, api_key, transport) as client:
        bound = patience or Patience(loading_s=0.0)
        answers = await _listed(client, url, bound, is_real=transport is None)
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


async def _listed(
    client: httpx.AsyncClient, url: str, patience: Patience, *, is_real: bool
) -> Answers:
    """What a server says of itself, once it does."""
    started = patience.clock()
    while True:
        answers, verdict = await _asked(client, url, registry.PATHS, is_real=is_real)
        if verdict is READY:
            return answers
        _give_up_if(url, verdict, patience, patience.clock() - started)
        await patience.sleep(ASK_AGAIN_S)


async def _asked(
    client: httpx.AsyncClient, url: str, paths: Sequence[str], *, is_real: bool
) -> tuple[Answers, Readiness]:
    """What a server answers to plain questions, and what that says of it."""
    answers, unreached = await questions.ask_each(client, url, paths)
    if unreached and not any(reply.status for reply in answers.values()):
        # All questions went to the same port.
        why = await _looked_into(client, url, most_telling(unreached.values()), is_real=is_real)
        return answers, readiness.of_unreached(why)
    return answers, readiness.of_listing(url, answers, unreached)


async def _looked_into(
    client: httpx.AsyncClient, url: str, why: Unreached, *, is_real: bool
) -> Unreached:
    """A port that closes, or speaks something else, is asked in other ways what it is."""
    wrong_tongue = why.cause in {Cause.CLOSED, Cause.NO_HTTP, Cause.NO_TLS}
    no_handshake = url.startswith("https:") and why.cause is Cause.UNCONNECTED
    if not (wrong_tongue or no_handshake):
        return why
    if is_real and (said := await reach.greeting(url)):
        return Unreached(Cause.NO_HTTP, f"it says {said[:80]!r}")
    other = await questions.other_scheme(client, url)
    return Unreached(Cause.WRONG_SCHEME, other) if other else why


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
    waiting: Callable[[str, float], None]
    answer_s: float
    is_real: bool


async def _try(client: httpx.AsyncClient, wanted: _Wanted) -> Target | Readiness:
    url = wanted.url
    answers, verdict = await _asked(client, url, readiness.PATHS, is_real=wanted.is_real)
    if verdict is not READY:
        return verdict
    rest = set(registry.PATHS) - set(readiness.PATHS)
    answers |= await questions.ask_all(client, url, rest)
    engine, facts = registry.recognise(answers, wanted.model, named=wanted.engine)
    model = _choose(url, wanted.model, answers, must_be_named=facts.needs_model)
    target = Target(url, engine.bound(model), facts, model, wanted.api_key)
    asked_s = wanted.waited()
    reply = await trial.complete(
        client,
        target,
        timeout_s=wanted.answer_s,
        slow=lambda text, seconds: wanted.waiting(text, asked_s + seconds),
    )
    if isinstance(reply, Unreached):
        return readiness.of_completion(reply, None)
    sample = trial.as_sample(reply)
    if _is_unknown_model(reply, answers):
        raise UsageError(_unknown_model(url, target.model, models_of(answers)))
    verdict = readiness.of_completion(reply, sample)
    if verdict is not READY:
        return verdict
    overhead = max(0, (sample.prompt_tokens or trial.WORDS) - trial.WORDS)
    ready_s = wanted.waited()
    target = replace(target, overhead_tokens=overhead, ready_s=ready_s, trial_s=ready_s - asked_s)
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


def _give_up_if(url: str, verdict: Readiness, patience: Patience, waited_s: float) -> None:
    died = patience.alive()
    if died is not None:
        raise EngineError(f"the engine ended while it was starting: {died}")
    bounds = {State.NOT_YET: patience.loading_s, State.REFUSED: patience.refused_s}
    bound = bounds.get(verdict.state)
    if bound is not None and waited_s < bound:
        return
    steps = [verdict.step] if verdict.step else []
    after = ""
    if bound:
        after = f" after {waited_s:.0f} s"
        steps.append("give it longer with --wait SECONDS")
    elif bound is not None:
        steps.append("--wait 120 waits for one that is still starting")
    what_to_do = f": {'; '.join(steps)}" if steps else ""
    raise EngineError(f"{url}: {verdict.what}{after}{what_to_do}")


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
