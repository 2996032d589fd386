"""The samples of a level become the figures of a level result."""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from math import fsum
from typing import TYPE_CHECKING

from edgesweep.quantiles import distribution
from edgesweep.records import Distribution, Flag, LevelStatus, Sample

from .window import Window, emissions, peak_in_flight, steady_window, whole_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

BLOCKS = 10
"""Equal parts of the steady window, so that drift within a level shows."""
ERRORS_THRESHOLD = 0.01
LENGTH_THRESHOLD = 0.01

_ESTIMATE = "estimate"
_PER_REQUEST = ("ttft_s", "ttfr_s", "first_content_s", "tpot_s", "icl_s", "e2e_s", "queue_s")
_PER_CHUNK = frozenset({"icl_s"})
_CAVEATS = frozenset({"stream_buffered"})
"""Flags that spoil some metrics, which are left out, and leave the level valid."""


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """What the samples of a level came to: the measured fields of a ``LevelResult``."""

    status: LevelStatus
    reason: str = ""
    flags: tuple[Flag, ...] = ()
    n_ok: int = 0
    n_failed: int = 0
    failed_by: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    block_output_tokens_per_s: tuple[float, ...] = ()


def summarise(
    samples: Sequence[Sample],
    concurrency: int,
    *,
    asked_output_tokens: Sequence[int] = (),
    interrupted: bool = False,
) -> LevelSummary:
    """Figures of one level; latencies and rates are those of the successful requests alone.

    Args:
        samples: The measured requests, in any order.
        concurrency: Requests the level keeps in flight.
        asked_output_tokens: Tokens asked for, by ``Sample.index``; empty where answers may
            stop where they like.
        interrupted: The level was stopped before its time; what was measured is kept, but it
            has failed.
    """
    ok = [sample for sample in samples if sample.ok]
    failed_by = _failed_by(samples)
    flags = tuple(_flags(samples, ok, asked_output_tokens))
    status, reason = _status(ok, failed_by, flags, interrupted=interrupted)
    steady = steady_window(samples, concurrency)
    return LevelSummary(
        status=status,
        reason=reason,
        flags=flags,
        n_ok=len(ok),
        n_failed=len(samples) - len(ok),
        failed_by=failed_by,
        values=_values(samples, ok, steady),
        distributions=_distributions(ok),
        block_output_tokens_per_s=_blocks(ok, steady) if ok and steady else (),
    )


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
    if any(flag.name not in _CAVEATS for flag in flags):
        return LevelStatus.FLAGGED, ""
    return LevelStatus.VALID, ""


def _flags(samples: Sequence[Sample], ok: Sequence[Sample], asked: Sequence[int]) -> Iterable[Flag]:
    if samples and (share := (len(samples) - len(ok)) / len(samples)) > ERRORS_THRESHOLD:
        yield Flag("errors", share, ERRORS_THRESHOLD)
    if estimated := sum(sample.token_source == _ESTIMATE for sample in ok):
        yield Flag("tokens_estimated", estimated / len(ok), 0.0, "the engine sends no counts")
    for name, other_length in (("short_output", operator.lt), ("long_output", operator.gt)):
        if ok and (share := _share(ok, asked, other_length)) > LENGTH_THRESHOLD:
            yield Flag(name, share, LENGTH_THRESHOLD)
    if buffered := sum("stream_buffered" in sample.flags for sample in ok):
        yield Flag("stream_buffered", buffered / len(ok), 0.0, "something joins the chunks")


def _share(
    ok: Sequence[Sample], asked: Sequence[int], other_length: Callable[[int, int], bool]
) -> float:
    """Answers shorter, or longer, than asked for; an estimated length proves nothing."""
    found = sum(
        sample.index < len(asked)
        and sample.token_source != _ESTIMATE
        and other_length(sample.output_tokens or 0, asked[sample.index])
        for sample in ok
    )
    return found / len(ok)


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
    samples: Sequence[Sample], ok: Sequence[Sample], steady: Window | None
) -> dict[str, float]:
    """Scalar metrics; what was not measured is absent."""
    values: dict[str, float] = {}
    whole = whole_window(samples)
    if samples:
        values["peak_in_flight"] = peak_in_flight(samples)
    if whole:
        values["duration_s"] = whole.seconds
    if steady:
        values["window_s"] = steady.seconds
    if ok:
        values |= _counts(ok)
        values |= _rates(ok, steady, "") if steady else {}
        values |= _rates(ok, whole, "_gross") if whole else {}
    return values


def _counts(ok: Sequence[Sample]) -> dict[str, float]:
    counts: dict[str, float] = {"output_tokens": sum(sample.output_tokens or 0 for sample in ok)}
    if (prompts := _prompt_tokens(ok)) is not None:
        counts["prompt_tokens"] = sum(prompts)
    # vLLM leaves the field out of an answer that took nothing from its cache, so that one
    # answer with a figure speaks for those without.
    cached = [sample.cached_tokens for sample in ok if sample.cached_tokens is not None]
    if cached:
        counts["cached_tokens"] = sum(cached)
    return counts


def _prompt_tokens(ok: Iterable[Sample]) -> list[int] | None:
    """Of each request; ``None`` if any did not say, since a partial sum is no sum."""
    prompts = [sample.prompt_tokens for sample in ok]
    known = [tokens for tokens in prompts if tokens is not None]
    return known if len(known) == len(prompts) else None


def _rates(ok: Sequence[Sample], window: Window, suffix: str) -> dict[str, float]:
    ends = (sample.t_send_ns + sample.text_ns[-1] for sample in ok if sample.text_ns)
    output = chain.from_iterable(map(emissions, ok))
    output_tokens = fsum(tokens for t_ns, tokens in output if window.holds(t_ns))
    rates = {
        f"requests_per_s{suffix}": sum(map(window.holds, ends)) / window.seconds,
        f"output_tokens_per_s{suffix}": output_tokens / window.seconds,
    }
    prompts = _prompt_tokens(ok)
    if prompts is not None:
        # A prompt is worked off when its first token is out.
        total = output_tokens + sum(
            tokens
            for sample, tokens in zip(ok, prompts, strict=True)
            if sample.text_ns and window.holds(sample.t_send_ns + sample.text_ns[0])
        )
        rates[f"total_tokens_per_s{suffix}"] = total / window.seconds
    return rates


def _blocks(ok: Iterable[Sample], window: Window) -> tuple[float, ...]:
    blocks = [0.0] * BLOCKS
    for t_ns, tokens in chain.from_iterable(map(emissions, ok)):
        if window.holds(t_ns):
            blocks[window.block(t_ns, BLOCKS)] += tokens
    return tuple(tokens * BLOCKS / window.seconds for tokens in blocks)
