"""Fan-out: n requests at once that share an opening, then one that joins their findings.

Each round has a cold burst, whose opening was never seen, and a warm one with the same opening
and other questions. After the first round the questions of its cold burst are asked once more:
reuse must not change what is answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_agent.core.arrangement import AGAIN, COLD, JOIN, WARM, Arrangement, Part

from .base import Track
from .chat import lengths
from .draft import Draft, Request, Texts, TrackDraft

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .base import Level

MIN_ROUNDS = 3
FINDING_TOKENS = 32
"""What each request contributes to the join."""
SEPARATOR_TOKENS = 1


@dataclass(frozen=True, slots=True)
class Opening:
    """What the requests of a burst have in common: a text, and leave to reuse it."""

    text: int
    nonce: str


def draft(level: Level) -> Draft:
    """Rounds of cold and warm bursts, one burst at a time, until there are enough requests."""
    texts = Texts(level)
    rounds = max(MIN_ROUNDS, -(-level.requests // (2 * (level.concurrency + 1))))
    tracks: list[TrackDraft] = []
    for number in range(1, rounds + 1):
        for burst in _round(level, texts, number):
            after = tracks[-1].track.name if tracks else ""
            tracks.append(_track(burst, after))
    warmup = tuple(
        request
        for _ in range(level.warmup_bursts)
        for request in _equal(level, texts, opening(level, texts))
    )
    arrangement = Arrangement(window="burst", shared_tokens=level.shape.shared_tokens)
    return Draft(texts.wanted, tuple(tracks), warmup, level.concurrency, arrangement)


def opening(level: Level, texts: Texts) -> Opening:
    """An opening that nobody has seen."""
    position = texts.add(level.shape.shared_tokens + level.overhead_tokens)
    return Opening(position, f"{level.seed}/{position}")


def question(level: Level, texts: Texts, about: Opening, output_tokens: int) -> Request:
    """A request of a fan-out: the opening, and a part of its own."""
    own = texts.add(level.shape.prompt_tokens - SEPARATOR_TOKENS)
    return Request((about.text, own), output_tokens, about.nonce)


_Burst = tuple[Part, tuple[Request, ...]]


def _round(level: Level, texts: Texts, number: int) -> Iterator[_Burst]:
    about = opening(level, texts)
    # The same lengths in every burst, so that makespans can be compared.
    outputs = lengths(level, level.concurrency)
    first = tuple(question(level, texts, about, tokens) for tokens in outputs)
    yield Part(number, COLD), first
    yield Part(number, COLD, JOIN), (_join(level, texts, about),)
    yield Part(number, WARM), tuple(question(level, texts, about, tokens) for tokens in outputs)
    yield Part(number, WARM, JOIN), (_join(level, texts, about),)
    if number == 1:
        yield Part(number, AGAIN), first


def _join(level: Level, texts: Texts, about: Opening) -> Request:
    findings = texts.add(level.concurrency * FINDING_TOKENS + level.overhead_tokens)
    return Request((about.text, findings), level.shape.output_tokens, about.nonce)


def _track(burst: _Burst, after: str) -> TrackDraft:
    part, requests = burst
    return TrackDraft(Track(part.name, concurrency=len(requests), after=after), requests)


def _equal(level: Level, texts: Texts, about: Opening) -> Iterator[Request]:
    tokens = level.shape.output_tokens
    return (question(level, texts, about, tokens) for _ in range(level.concurrency))
