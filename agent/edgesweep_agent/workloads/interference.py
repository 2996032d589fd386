"""Interference, both ways: a load that is there, and another one that comes and goes.

Both loads are an operator's session (one request at a time) and a fan-out of the level's size
(bursts that share an opening, back to back). The one that is there runs alone, then with the
other, then alone again: each phase is long enough for a median.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep.quantiles import FLOORS
from edgesweep_agent.core.arrangement import Arrangement
from edgesweep_agent.core.spread import output_lengths

from .base import Track
from .draft import Draft, Request, Texts, TrackDraft
from .fanout import opening, question

if TYPE_CHECKING:
    from .base import Level

OPERATOR, FANOUT = "operator", "fanout"
SPARE = 3
"""What is there has so many times the requests that it should need while the other one runs: how
the engine shares itself between them is what is measured."""


def operator_arrives(level: Level) -> Draft:
    """A fan-out runs; an operator opens a session, and leaves."""
    texts, phase = Texts(level), _phase_requests(level)
    count = 2 * phase + level.concurrency * (SPARE * phase + 1)
    resident = TrackDraft(
        Track(FANOUT, concurrency=level.concurrency, until=OPERATOR, until_more=phase),
        _fanout(level, texts, count),
    )
    newcomer = TrackDraft(
        Track(OPERATOR, after=FANOUT, after_done=phase), _operator(level, texts, phase)
    )
    return _draft(level, texts, resident, newcomer)


def fanout_arrives(level: Level) -> Draft:
    """An operator's session runs; a fan-out starts, and ends."""
    texts, phase = Texts(level), _phase_requests(level)
    resident = TrackDraft(
        Track(OPERATOR, until=FANOUT, until_more=phase),
        _operator(level, texts, (2 + SPARE) * phase),
    )
    newcomer = TrackDraft(
        Track(FANOUT, concurrency=level.concurrency, after=OPERATOR, after_done=phase),
        _fanout(level, texts, level.concurrency * phase),
    )
    return _draft(level, texts, resident, newcomer)


def _phase_requests(level: Level) -> int:
    """Answers that what is there gets in each phase: as many as a median needs, or more."""
    return max(FLOORS[0.5], level.requests // 3)


def _draft(level: Level, texts: Texts, resident: TrackDraft, newcomer: TrackDraft) -> Draft:
    warmup = _fanout(level, texts, level.warmup_requests, spread=0.0)
    arrangement = Arrangement(
        window="phases", resident=resident.track.name, newcomer=newcomer.track.name
    )
    return Draft(texts.wanted, (resident, newcomer), warmup, level.concurrency, arrangement)


def _operator(level: Level, texts: Texts, count: int) -> tuple[Request, ...]:
    """Unrelated requests as long as those of the fan-out."""
    shape = level.shape
    outputs = output_lengths(f"{level.seed}/{OPERATOR}", count, shape.output_tokens, shape.spread)
    positions = (texts.add(shape.shared_tokens + shape.prompt_tokens) for _ in range(count))
    return tuple(
        Request((position,), tokens, f"{level.seed}/{position}")
        for position, tokens in zip(positions, outputs, strict=True)
    )


def _fanout(
    level: Level, texts: Texts, count: int, spread: float | None = None
) -> tuple[Request, ...]:
    shape = level.shape
    spread = shape.spread if spread is None else spread
    outputs = output_lengths(f"{level.seed}/{FANOUT}", count, shape.output_tokens, spread)
    requests = []
    for position, tokens in enumerate(outputs):
        if position % level.concurrency == 0:
            about = opening(level, texts)
        requests.append(question(level, texts, about, tokens))
    return tuple(requests)
