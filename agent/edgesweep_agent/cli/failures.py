"""What failed at a level: every reason with its count, and the server's own words."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import TYPE_CHECKING

from edgesweep.records import LevelStatus
from edgesweep_agent.core.chunk import body_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep.records import LevelResult, Sample

_REFUSED = "connection_refused"
_SECOND_NS = 1_000_000_000


def failures(level: LevelResult, samples: Sequence[Sample]) -> list[str]:
    """The failed requests of a level in one line, and a second one if its server is gone.

    Counts are those of the table; none if nothing failed.
    """
    where = f"{level.contender.name}, level {level.concurrency}"
    if not level.failed_by:
        return [f"{where}: {text}" for text in _hung(level)]
    total = level.n_ok + level.n_failed
    reasons = ", ".join(
        f"{count} {reason}{_words(reason, samples)}" for reason, count in level.failed_by.items()
    )
    told = [f"{where}: {level.n_failed} of {total} requests failed: {reasons}"]
    return [*told, *(f"{where}: {text}" for text in (*_gone(level, samples), *_hung(level)))]


def _words(reason: str, samples: Sequence[Sample]) -> str:
    """What was first said with a reason."""
    details = (sample.detail for sample in samples if sample.reason == reason and sample.detail)
    detail = next(details, "")
    return f" ({_message(detail)})" if detail else ""


def _message(detail: str) -> str:
    """What an error says within its JSON, if that is what it is."""
    try:
        body = json.loads(detail)
    except ValueError:
        return detail
    return (body_error(body) if isinstance(body, dict) else "") or detail


def _gone(level: LevelResult, samples: Sequence[Sample]) -> list[str]:
    """Nothing but refused connections from some instant to the end: nobody listens any more."""
    by_end = sorted(samples, key=lambda sample: sample.t_end_ns)
    refused = list(takewhile(_is_refused, reversed(by_end)))
    if not refused:
        return []
    since_s = (refused[-1].t_end_ns - level.started_mono_ns) / _SECOND_NS
    since = (
        f"from {since_s:.0f} s into the level on" if len(refused) < len(by_end) else "throughout"
    )
    what = f"the server is gone: connections were refused {since}"
    return [f"{what}; look at its log, and start it again"]


def _is_refused(sample: Sample) -> bool:
    """Other reasons too keep a connection from coming about."""
    return sample.reason == _REFUSED and "refused" in sample.detail.lower()


def _hung(level: LevelResult) -> list[str]:
    """Cut by the budget, which the level spent on waiting for a byte."""
    silent = level.attributes.get("silence_s")
    if silent is None or level.status is not LevelStatus.FAILED:
        return []
    what = f"the server hangs: no byte came for {silent} s, though it had answered before"
    return [f"{what}; look at its log, and at what else it works on"]
