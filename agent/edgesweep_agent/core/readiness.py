"""What a server's answers say about measuring it: ready, not yet, or never, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from .answers import text_of

if TYPE_CHECKING:
    from edgesweep.records import Sample

    from .answers import Answers, Reply


class State(Enum):
    """Whether it makes sense to ask again."""

    READY = "ready"
    LOADING = "loading"
    REFUSED = "refused"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Readiness:
    """A state and, unless it is ready, what was wrong and what to do."""

    state: State
    text: str = ""


READY = Readiness(State.READY)

PATHS = ("/health", "/v1/models")
"""What is asked first, and again while it is loading."""

_NO_LISTING = frozenset({404, 405, 501})
"""A small server may have nothing but the completion: that one is asked next."""


def of_listing(url: str, answers: Answers) -> Readiness:
    """Judge ``GET /v1/models`` and ``GET /health``; a server may do without the listing.

    llama.cpp answers 503 to everything but its listing while it loads (ggml-org/llama.cpp
    PR#9056); vLLM does not listen until it is ready.
    """
    if not answers:
        return Readiness(
            State.REFUSED,
            f"nothing answers at {url}: start the server, or correct the address "
            "(--wait 120 waits for one that is still starting)",
        )
    listing, health = answers.get("/v1/models"), answers.get("/health")
    for reply in (health, listing):
        if reply is not None and reply.status == 503:
            return Readiness(State.LOADING, f"{url} is still loading its model (HTTP 503)")
    if listing is None or (listing.status == 0 and not listing.text):
        return Readiness(State.LOADING, f"{url} does not answer GET /v1/models in time")
    if listing.status == 0:
        return Readiness(
            State.UNUSABLE, f"{url} does not speak HTTP ({listing.text}): correct the address"
        )
    if listing.status in _NO_LISTING:
        return READY
    return _problem(url, "GET /v1/models", listing) or READY


def of_completion(url: str, reply: Reply | None, sample: Sample | None) -> Readiness:
    """Judge the answer to one tiny streamed chat completion, and what it came to as a sample."""
    what = "POST /v1/chat/completions"
    if reply is None or sample is None:
        return Readiness(State.LOADING, f"{url} does not answer {what} in time")
    if reply.status == 503:
        return Readiness(State.LOADING, f"{url} is still loading its model (HTTP 503)")
    problem = _problem(url, what, reply)
    if problem is not None:
        return problem
    if sample.ok or sample.reason in _ANSWERED:
        return READY
    return Readiness(
        State.UNUSABLE,
        f"{url}: {what} does not stream a completion ({sample.reason}): {_said(reply)}",
    )


_ANSWERED = frozenset({"empty_output"})
"""One token may be one that has no text."""


def _problem(url: str, what: str, reply: Reply) -> Readiness | None:
    if reply.is_html:
        return Readiness(
            State.UNUSABLE,
            f"{url}: {what} gave an HTML page (HTTP {reply.status}), no OpenAI-compatible API: "
            "give the address of the engine itself, not of a web page or a proxy's login",
        )
    if reply.status in {401, 403}:
        return Readiness(
            State.UNUSABLE, f"{url} wants an API key (HTTP {reply.status}): --api-key-file FILE"
        )
    if reply.status == 404:
        return Readiness(
            State.UNUSABLE,
            f"{url}: {what} is not there (HTTP 404): no OpenAI-compatible API at this address; "
            "check host, port and path",
        )
    if reply.status != 200:
        return Readiness(State.UNUSABLE, f"{url}: {what}: HTTP {reply.status}: {_said(reply)}")
    return None


def _said(reply: Reply) -> str:
    error = reply.json_object().get("error")
    text = error.get("message") if isinstance(error, dict) else error
    return " ".join(text_of(str(text or reply.text)).split())[:200] or "(empty)"
