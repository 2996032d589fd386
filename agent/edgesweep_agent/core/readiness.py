"""What a server's answers say about measuring it: ready, not yet, or never, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from .answers import one_line, text_of
from .unreached import Cause, Unreached, most_telling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep.records import Sample

    from .answers import Answers, Reply


class State(Enum):
    """Whether it makes sense to ask again."""

    READY = "ready"
    NOT_YET = "not_yet"
    REFUSED = "refused"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Readiness:
    """A state and, unless it is ready, what is the case and what to do.

    Attributes:
        what: Without the address, and the same for as long as it stays so.
        step: The next step; empty where waiting is all that can be done.
    """

    state: State
    what: str = ""
    step: str = ""


READY = Readiness(State.READY)

PATHS = ("/health", "/v1/models")
"""What is asked first, and again while it is loading."""
COMPLETION = "POST /v1/chat/completions"

_NO_LISTING = frozenset({404, 405, 501})
"""A small server may have nothing but the completion: that one is asked next."""
_UNAVAILABLE = 503
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""A measured request follows none."""
_ALL_REACHED: Mapping[str, Unreached] = MappingProxyType({})
_TLS_WANTED = ("https port", "https server", "ssl-enabled server port")
"""What nginx, Go and Apache say to plain HTTP on a port of TLS, each with HTTP 400."""


def of_listing(
    url: str, answers: Answers, unreached: Mapping[str, Unreached] = _ALL_REACHED
) -> Readiness:
    """Judge ``GET /v1/models`` and ``GET /health``; a server may do without the listing.

    llama.cpp answers 503 to everything but its listing while it loads (ggml-org/llama.cpp
    PR#9056); vLLM does not listen until it is ready.

    Args:
        url: Of the server.
        answers: By path.
        unreached: Why a path has no answer.
    """
    replies = {path: answers[path] for path in PATHS if path in answers and answers[path].status}
    if not replies:
        return of_unreached(most_telling(unreached.values()))
    for path, reply in replies.items():
        if reply.status == _UNAVAILABLE:
            return _unavailable(f"GET {path}", reply)
        if _wants_tls(reply):
            return of_unreached(Unreached(Cause.WRONG_SCHEME, url.replace("http:", "https:", 1)))
    listing = replies.get("/v1/models")
    if listing is None:
        why = unreached.get("/v1/models", Unreached(Cause.SILENT))
        state = State.NOT_YET if why.passes else State.UNUSABLE
        return Readiness(state, why.of("GET /v1/models"), why.step)
    if listing.status in _NO_LISTING:
        return READY
    return _problem("GET /v1/models", listing) or READY


def of_unreached(why: Unreached) -> Readiness:
    """Judge a server of which nothing at all could be heard."""
    if not why.passes:
        state = State.UNUSABLE
    else:
        state = State.NOT_YET if why.cause is Cause.SILENT else State.REFUSED
    return Readiness(state, why.what, why.step)


def of_completion(reply: Reply | Unreached, sample: Sample | None) -> Readiness:
    """Judge the answer to one tiny streamed chat completion, and what it came to as a sample."""
    if isinstance(reply, Unreached):
        return _no_completion(reply)
    if reply.status == _UNAVAILABLE:
        return _unavailable(COMPLETION, reply)
    problem = _problem(COMPLETION, reply)
    if problem is not None:
        return problem
    if sample is None or sample.ok or sample.reason in _ANSWERED:
        return READY
    return Readiness(
        State.UNUSABLE,
        f"{COMPLETION} does not stream a completion ({sample.reason}): {_said(reply)}",
    )


_ANSWERED = frozenset({"empty_output"})
"""One token may be one that has no text."""


def _no_completion(why: Unreached) -> Readiness:
    """It answered plain questions a moment ago."""
    if why.cause is Cause.CLOSED:
        what = f"{COMPLETION}: the server disconnected without an answer"
        return Readiness(State.UNUSABLE, what, "look at its log: it may have ended over it")
    judged = of_unreached(why)
    return Readiness(judged.state, why.of(COMPLETION), judged.step)


def _unavailable(what: str, reply: Reply) -> Readiness:
    """HTTP 503 means "not now": only a body that speaks of loading says why."""
    if reply.is_html:
        said = "an HTML page of a proxy: what is behind it is not ready"
        return Readiness(State.NOT_YET, f"HTTP 503 to {what}: {said}", "start what is behind it")
    said = _said(reply)
    if "loading" in said.lower() or "loading" in text_of(reply.json_object().get("status")).lower():
        return Readiness(State.NOT_YET, "still loading its model (HTTP 503)")
    return Readiness(State.NOT_YET, f"HTTP 503 to {what}: {said}", "look at the server's log")


def _wants_tls(reply: Reply) -> bool:
    text = reply.text[:2000].lower()
    return reply.status == 400 and any(words in text for words in _TLS_WANTED)


def _problem(what: str, reply: Reply) -> Readiness | None:
    if reply.status in _REDIRECTS and (to := reply.headers.get("location")):
        there = f"{what} is redirected to {one_line(to)} (HTTP {reply.status})"
        return Readiness(State.UNUSABLE, there, "give the address of the engine itself")
    if reply.is_html:
        return Readiness(
            State.UNUSABLE,
            f"{what} gave an HTML page (HTTP {reply.status}), no OpenAI-compatible API",
            "give the address of the engine itself, not of a web page or a proxy's login",
        )
    if reply.status in {401, 403}:
        return Readiness(
            State.UNUSABLE, f"wants an API key (HTTP {reply.status})", "--api-key-file FILE"
        )
    if reply.status == 404:
        return Readiness(
            State.UNUSABLE,
            f"{what} is not there (HTTP 404): no OpenAI-compatible API at this address",
            "check host, port and path",
        )
    if reply.status != 200:
        return Readiness(State.UNUSABLE, f"{what}: HTTP {reply.status}: {_said(reply)}")
    return None


def _said(reply: Reply) -> str:
    """A server's own words, on one line."""
    error = reply.json_object().get("error")
    text = error.get("message") if isinstance(error, dict) else error
    return one_line(str(text or reply.text)) or "(empty)"
