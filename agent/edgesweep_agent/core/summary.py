"""The samples of a level become the figures of a level result."""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from edgesweep.quantiles import distribution
from edgesweep.records import Distribution, Flag, LevelStatus, Sample

from .arrangement import COLD, Arrangement
from .credible import ends_late, is_undercounted
from .phases import during_window
from .rates import block_rates, prompt_tokens, rates, requests_per_s, total_seconds
from .slo import Slo
from .window import (
    Window,
    due_ns,
    open_window,
    peak_in_flight,
    steady_window,
    whole_window,
)
from .workload_metrics import burst_windows, figures, questions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ERRORS_THRESHOLD = 0.01
LENGTH_THRESHOLD = 0.01
LATE_END_THRESHOLD = 0.05
"""Share of the answers: a last packet that the network lost, and sent again after 0.2 s, is no
fault of the engine; one such answer in eleven, the smallest level, is caught."""

_ESTIMATE = "estimate"
_FROM_SEND = ("ttft_s", "ttfr_s", "first_content_s", "e2e_s")
_PER_REQUEST = (*_FROM_SEND, "tpot_s", "icl_s", "itl_s", "queue_s")
_PER_CHUNK = frozenset({"icl_s", "itl_s"})
_NO_BOUNDS = Slo()
_CAVEATS = frozenset({"stream_buffered"})
"""Flags that spoil some metrics, which are left out, and leave the level valid."""


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """What the samples of a level came to: the measured fields of a ``LevelResult``.

    Attributes:
        block_output_tokens_per_s: Of equal parts of the window; of each burst for a fan-out.
        attributes: What is said in words, such as ``slowest_step``.
        windows_ns: Over which rates were taken, monotonic; in one piece but for bursts.
    """

    status: LevelStatus
    reason: str = ""
    flags: tuple[Flag, ...] = ()
    n_ok: int = 0
    n_failed: int = 0
    failed_by: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    block_output_tokens_per_s: tuple[float, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    windows_ns: tuple[tuple[int, int], ...] = ()

    @property
    def window_ns(self) -> tuple[int, int] | None:
        """From the first instant of the windows to the last."""
        return (self.windows_ns[0][0], self.windows_ns[-1][1]) if self.windows_ns else None


def summarise(
    samples: Sequence[Sample],
    concurrency: int,
    *,
    asked_output_tokens: Sequence[int | None] = (),
    most_output_tokens: Sequence[int] = (),
    least_prompt_tokens: float = 0.0,
    interrupted: bool = False,
    arrangement: Arrangement | None = None,
    slo: Slo = _NO_BOUNDS,
) -> LevelSummary:
    """Figures of one level; latencies and rates are those of the successful requests alone.

    Latencies of an open loop count from when a request was due, so that a client which fell
    behind hides nothing. Those of a fan-out are of its cold questions, those of interference of
    the requests sent while both loads ran: a mixture would be a figure of nothing.

    Args:
        samples: The measured requests, in any order.
        concurrency: Requests the level keeps in flight.
        asked_output_tokens: Tokens asked for, by ``Sample.index``; ``None``, or nothing at all,
            where an answer may stop where it likes.
        most_output_tokens: The bound that every answer had, likewise.
        least_prompt_tokens: Fewer than these in a prompt mean that the server cut it.
        interrupted: The level was stopped before its time; what was measured is kept, but it
            has failed.
        arrangement: Of the requests; by itself a closed loop.
        slo: What a request must keep to be a good one.
    """
    arranged = arrangement or Arrangement()
    ok = [sample for sample in samples if sample.ok]
    failed_by = _failed_by(samples)
    wanted = _Wanted(asked_output_tokens, most_output_tokens, least_prompt_tokens)
    flags = tuple(_flags(samples, ok, wanted))
    status, reason = _status(ok, failed_by, flags, interrupted=interrupted)
    if arranged.window == "open":
        samples, ok = _from_due(samples), _from_due(ok)
    windows = _windows(samples, concurrency, arranged)
    own = figures(samples, arranged)
    return LevelSummary(
        status=status,
        reason=reason,
        flags=flags,
        n_ok=len(ok),
        n_failed=len(samples) - len(ok),
        failed_by=failed_by,
        values={**_values(samples, ok, windows, arranged, slo), **own.values},
        distributions={**_distributions(_typical(ok, arranged)), **own.distributions},
        block_output_tokens_per_s=block_rates(ok, windows) if ok else (),
        attributes=own.attributes,
        windows_ns=tuple((window.start_ns, window.end_ns) for window in windows),
    )


def _windows(
    samples: Sequence[Sample], concurrency: int, arrangement: Arrangement
) -> tuple[Window, ...]:
    """The time over which rates are taken, in one piece but for bursts."""
    if arrangement.window == "burst":
        return burst_windows(samples, COLD)
    if arrangement.window == "phases":
        found = during_window(samples, arrangement.newcomer)
    elif arrangement.window == "open":
        found = open_window(samples)
    else:
        found = steady_window(samples, concurrency)
    return () if found is None else (found,)


def _typical(ok: Sequence[Sample], arrangement: Arrangement) -> Sequence[Sample]:
    """The requests whose latencies stand for the workload."""
    if arrangement.window == "burst":
        return questions(ok, COLD)
    if arrangement.window == "phases":
        during = during_window(ok, arrangement.newcomer)
        return [s for s in ok if during and during.start_ns <= s.t_send_ns <= during.end_ns]
    return ok


def _from_due(samples: Iterable[Sample]) -> list[Sample]:
    """The samples with latencies from when each was due instead of sent."""
    return [
        replace(
            sample,
            **{
                name: value + (sample.queue_s or 0.0)
                for name in _FROM_SEND
                if (value := getattr(sample, name)) is not None
            },
        )
        for sample in samples
    ]


def _failed_by(samples: Iterable[Sample]) -> dict[str, int]:
    """Failures by reason, the most common first."""
    counts = Counter(sample.reason for sample in samples if not sample.ok)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _status(
    ok: Sequence[Sample],
    failed_by: Mapping[str, int],
    flags: Sequence[Flag],
    *,
    interrupted: bool,
) -> tuple[LevelStatus, str]:
    if interrupted:
        return LevelStatus.FAILED, "interrupted"
    if not ok:
        return LevelStatus.FAILED, next(iter(failed_by), "no_samples")
    if sum(failed_by.values()) > len(ok):
        return LevelStatus.FAILED, "errors"
    if any(flag.name not in _CAVEATS for flag in flags):
        return LevelStatus.FLAGGED, ""
    return LevelStatus.VALID, ""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Lengths in tokens, by ``Sample.index``."""

    asked: Sequence[int | None] = ()
    most: Sequence[int] = ()
    least_prompt: float = 0.0


def _flags(samples: Sequence[Sample], ok: Sequence[Sample], wanted: _Wanted) -> Iterable[Flag]:
    if samples and (share := (len(samples) - len(ok)) / len(samples)) > ERRORS_THRESHOLD:
        yield Flag("errors", share, ERRORS_THRESHOLD)
    yield from _uncounted(ok)
    shares = {
        "short_output": _share(ok, wanted.asked, operator.lt),
        "long_output": max(
            _share(ok, wanted.asked, operator.gt), _share(ok, wanted.most, operator.gt)
        ),
        "short_prompt": _cut_prompts(ok, wanted.least_prompt),
    }
    for name, share in shares.items():
        if share > LENGTH_THRESHOLD:
            yield Flag(name, share, LENGTH_THRESHOLD)
    if buffered := sum("stream_buffered" in sample.flags for sample in ok):
        yield Flag("stream_buffered", buffered / len(ok), 0.0, "something joins the chunks")
    if (late := sum(map(ends_late, ok))) and late / len(ok) > LATE_END_THRESHOLD:
        detail = "answers that ended long after their last text"
        yield Flag("late_end", late / len(ok), LATE_END_THRESHOLD, detail)


def _uncounted(ok: Sequence[Sample]) -> Iterable[Flag]:
    """No count, or one that cannot be: of either, one answer is enough."""
    missing = sum(sample.token_source == _ESTIMATE for sample in ok)
    too_low = sum(map(is_undercounted, ok))
    if missing or too_low:
        details = {
            "the engine sends no counts": missing,
            "the engine counts fewer tokens than it sends chunks of text": too_low,
        }
        detail = "; ".join(text for text, answers in details.items() if answers)
        yield Flag("tokens_estimated", (missing + too_low) / len(ok), 0.0, detail)


def _cut_prompts(ok: Sequence[Sample], least: float) -> float:
    """Share of the prompts that came to fewer tokens: a context that was too small, as a rule."""
    cut = sum(s.prompt_tokens is not None and s.prompt_tokens < least for s in ok)
    return cut / len(ok) if ok else 0.0


def _share(
    ok: Sequence[Sample], asked: Sequence[int | None], other_length: Callable[[int, int], bool]
) -> float:
    """Answers shorter, or longer, than asked for; an estimated length proves nothing."""
    found = sum(
        sample.token_source != _ESTIMATE and other_length(sample.output_tokens or 0, wanted)
        for sample in ok
        if sample.index < len(asked) and (wanted := asked[sample.index]) is not None
    )
    return found / len(ok) if ok else 0.0


def _distributions(ok: Sequence[Sample]) -> dict[str, Distribution]:
    buffered = any("stream_buffered" in sample.flags for sample in ok)
    names = [name for name in _PER_REQUEST if not (buffered and name in _PER_CHUNK)]
    found = {name: distribution(_measured(ok, name)) for name in names}
    return {name: stats for name, stats in found.items() if stats is not None}


def _measured(ok: Iterable[Sample], name: str) -> Iterable[float]:
    if name in _PER_CHUNK:
        return chain.from_iterable(getattr(sample, name) for sample in ok)
    values = (getattr(sample, name) for sample in ok)
    return (value for value in values if value is not None)


def _values(
    samples: Sequence[Sample],
    ok: Sequence[Sample],
    windows: Sequence[Window],
    arrangement: Arrangement,
    slo: Slo,
) -> dict[str, float]:
    """Scalar metrics; what was not measured is absent."""
    values: dict[str, float] = {}
    whole = whole_window(samples)
    if samples:
        values["peak_in_flight"] = peak_in_flight(samples)
    if whole:
        values["duration_s"] = whole.seconds
    if windows:
        values["window_s"] = total_seconds(windows)
    if arrangement.window == "open" and (offered := _offered_per_s(samples)) is not None:
        values["offered_per_s"] = offered
    if samples and slo.asks:
        values["slo_attainment"] = sum(map(slo.met_by, samples)) / len(samples)
    if ok:
        values |= _counts(ok)
        values |= rates(ok, windows) if windows else {}
        values |= rates(ok, (whole,), "_gross") if whole else {}
    if ok and windows and slo.asks:
        values["goodput_per_s"] = requests_per_s(filter(slo.met_by, ok), windows)
    return values


def _offered_per_s(samples: Sequence[Sample]) -> float | None:
    """What the open loop asked for: its gaps over the time that they take."""
    due = sorted(map(due_ns, samples))
    if not due or due[0] == due[-1]:
        return None
    return (len(due) - 1) / Window(due[0], due[-1]).seconds


def _counts(ok: Sequence[Sample]) -> dict[str, float]:
    counts: dict[str, float] = {"output_tokens": sum(sample.output_tokens or 0 for sample in ok)}
    if (prompts := prompt_tokens(ok)) is not None:
        counts["prompt_tokens"] = sum(prompts)
    # vLLM leaves the field out of an answer that took nothing from its cache, so that one
    # answer with a figure speaks for those without.
    cached = [sample.cached_tokens for sample in ok if sample.cached_tokens is not None]
    if cached:
        counts["cached_tokens"] = sum(cached)
    if (accepted := _acceptance_share(ok)) is not None:
        counts["acceptance_share"] = accepted
    return counts


def _acceptance_share(ok: Iterable[Sample]) -> float | None:
    """Of all drafted tokens; ``None`` if none was drafted, or the engine does not say."""
    told = [
        (sample.draft_tokens, sample.accepted_tokens)
        for sample in ok
        if sample.draft_tokens is not None and sample.accepted_tokens is not None
    ]
    drafted = sum(draft for draft, _ in told)
    return sum(accepted for _, accepted in told) / drafted if drafted else None
