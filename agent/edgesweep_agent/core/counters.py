"""What an engine counts, under one set of names whatever the engine and its version.

``None`` is "not told": an unknown queue is not an empty one. Rates are ours, from two scrapes:
an engine's own gauge may be a lifetime average, or a window that any second scraper resets
(ggml-org/llama.cpp#25128).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from .answers import dict_in, text_of
from .exposition import Exposition, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .answers import Reply

COUNTED = (
    "prompt_tokens",
    "computed_prompt_tokens",
    "cached_prompt_tokens",
    "generation_tokens",
    "preemptions",
    "prefix_queries",
    "prefix_hits",
    "draft_tokens",
    "accepted_tokens",
    "decodes",
)
"""What only grows while an engine lives.

``prompt_tokens`` are all tokens of prompts, computed or taken from a cache; ``prefix_queries``
and ``prefix_hits`` are tokens looked up in the prefix cache and found there; ``draft_tokens`` and
``accepted_tokens`` those of speculative decoding; ``decodes`` are forward passes.
"""


class MetricsState(Enum):
    """Why figures are there, or are not."""

    OK = "ok"
    DISABLED = "disabled_by_server"
    ABSENT = "absent"
    UNREADABLE = "unreadable"


_FULL = 1.001
"""A share, give or take its rounding; what is above is a percentage, or nonsense."""

SeriesKey = tuple[str, tuple[tuple[str, str], ...]]
"""One series of an exposition: its name and its labels, sorted."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A share from 0 to 1 over the engines behind one server (data parallel)."""

    max: float
    mean: float


@dataclass(frozen=True, slots=True)
class Counters:
    """One scrape.

    Attributes:
        metrics_state: Whether the engine tells its figures.
        reason: Why it does not; empty if it does.
        running: Requests being worked on.
        waiting: Requests that the engine holds back.
        slots: Requests it works on at once, where its live state tells.
        kv_cache_usage: Share of the KV cache in use.
        kv_capacity_tokens: Tokens that the KV cache holds.
        kv_used_tokens: Tokens in it.
        counted: The figures of ``COUNTED`` that the engine told, by name.
        series: Those by name and labels, one by one: a sum may grow though one of them fell.
        busy_slots_per_decode: Mean number of requests in a forward pass since the start.
        process_start: Changes with every start of the engine; its unit is the engine's own.
        bad_samples: Lines of the scrape without a usable value.
        warnings: What was odd about the scrape.
    """

    metrics_state: MetricsState
    reason: str = ""
    running: float | None = None
    waiting: float | None = None
    slots: int | None = None
    kv_cache_usage: Usage | None = None
    kv_capacity_tokens: float | None = None
    kv_used_tokens: float | None = None
    counted: Mapping[str, float] = field(default_factory=dict)
    series: Mapping[SeriesKey, float] = field(default_factory=dict)
    busy_slots_per_decode: float | None = None
    process_start: float | None = None
    bad_samples: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricNames:
    """Where an engine's exposition has a figure: aliases, the newest first.

    Attributes:
        prefix: What the engine's own metrics begin with.
        counted: By the names of ``COUNTED``.
        without: Why the engine's own metrics may be missing from its exposition.
    """

    prefix: str
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    kv_cache_usage: tuple[str, ...] = ()
    kv_capacity_tokens: tuple[str, ...] = ()
    kv_used_tokens: tuple[str, ...] = ()
    counted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    busy_slots_per_decode: tuple[str, ...] = ()
    process_start: tuple[str, ...] = ("process_start_time_seconds",)
    without: str = ""


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """What happened between two scrapes of one engine.

    Attributes:
        seconds: Monotonic time between them.
        restarted: The engine was started anew in between: nothing can be said of the time.
        increases: By how much each figure of ``COUNTED`` grew, where both scrapes told it.
        busy_slots_per_decode: Mean number of requests in a forward pass.
    """

    seconds: float
    restarted: bool = False
    increases: Mapping[str, float] = field(default_factory=dict)
    busy_slots_per_decode: float | None = None

    def per_second(self, name: str) -> float | None:
        """The rate of one figure of ``COUNTED``; ``None`` is "not known"."""
        increase = self.increases.get(name)
        return None if increase is None or self.seconds <= 0 else increase / self.seconds

    @property
    def draft_acceptance(self) -> float | None:
        """Share of the drafted tokens that the model accepted."""
        return self._ratio("accepted_tokens", "draft_tokens")

    def _ratio(self, part: str, whole: str) -> float | None:
        a, b = self.increases.get(part), self.increases.get(whole)
        return None if a is None or not b else a / b


@dataclass(frozen=True, slots=True)
class Peaks:
    """The highest figures of several scrapes; ``None`` is "never told"."""

    running: float | None = None
    waiting: float | None = None
    kv_cache_usage: float | None = None


def silent(state: MetricsState, reason: str) -> Counters:
    """A scrape that told nothing, and why."""
    return Counters(state, reason)


def scraped(reply: Reply | None, names: MetricNames) -> Counters:
    """Read the answer to a scrape; a status alone proves nothing, the body is judged."""
    if reply is None or reply.status == 0:
        return silent(MetricsState.UNREADABLE, "no answer in time")
    if reply.status == 200 and reply.is_html:
        return silent(MetricsState.UNREADABLE, "an HTML page, no metrics")
    exposition = parse(reply.text)
    if reply.status != 200 or exposition.error:
        return silent(*_why_silent(reply, exposition))
    if not exposition.has(names.prefix):
        state = MetricsState.DISABLED if names.without else MetricsState.ABSENT
        told = Counters(state, names.without or f"no {names.prefix}* among the metrics")
        return replace(told, bad_samples=exposition.bad_samples, warnings=exposition.warnings)
    return _read(exposition, names)


def difference(before: Counters, after: Counters, seconds: float) -> CounterDelta:
    """What happened in between: a figure that fell, or another start, is a restart.

    Args:
        before: The earlier scrape.
        after: The later one.
        seconds: Monotonic time from one to the other.
    """
    increases = {
        name: after.counted[name] - before.counted[name]
        for name in COUNTED
        if name in before.counted and name in after.counted
    }
    fell = min(increases.values(), default=0) < 0 or any(
        after.series.get(key, value) < value for key, value in before.series.items()
    )
    if fell or _differ(before.process_start, after.process_start):
        return CounterDelta(seconds, restarted=True)
    busy = _busy(before, after, increases.get("decodes"))
    return CounterDelta(seconds, increases=increases, busy_slots_per_decode=busy)


def peaks(scrapes: Iterable[Counters]) -> Peaks:
    """The highest figures that any of ``scrapes`` told."""
    told = tuple(scrapes)
    return Peaks(
        running=_highest(scrape.running for scrape in told),
        waiting=_highest(scrape.waiting for scrape in told),
        kv_cache_usage=_highest(
            None if scrape.kv_cache_usage is None else scrape.kv_cache_usage.max for scrape in told
        ),
    )


def _why_silent(reply: Reply, exposition: Exposition) -> tuple[MetricsState, str]:
    error = dict_in(reply.json_object().get("error"))
    said = text_of(str(error.get("message") or reply.json_object().get("error") or ""))
    if reply.status == 501 or error.get("type") == "not_supported_error":
        return MetricsState.DISABLED, said or "HTTP 501"
    if reply.status in {404, 405} or (reply.status == 200 and said):
        return MetricsState.ABSENT, said or f"HTTP {reply.status}"
    if reply.status != 200:
        return MetricsState.UNREADABLE, f"HTTP {reply.status}" + (f": {said}" if said else "")
    return MetricsState.UNREADABLE, exposition.error


def _read(exposition: Exposition, names: MetricNames) -> Counters:
    counted = {name: exposition.total(names.counted.get(name, ())) for name in COUNTED}
    usage = exposition.values(names.kv_cache_usage)
    if any(not 0 <= share <= _FULL for share in usage):
        usage = ()
    start = exposition.values(names.process_start)
    return Counters(
        metrics_state=MetricsState.OK,
        running=_counted(exposition.total(names.running)),
        waiting=_counted(exposition.total(names.waiting)),
        kv_cache_usage=Usage(max(usage), math.fsum(usage) / len(usage)) if usage else None,
        kv_capacity_tokens=exposition.total(names.kv_capacity_tokens),
        kv_used_tokens=exposition.total(names.kv_used_tokens),
        counted={name: value for name, value in counted.items() if value is not None},
        series=_growing(exposition, names),
        busy_slots_per_decode=exposition.total(names.busy_slots_per_decode),
        process_start=max(start, default=None),
        bad_samples=exposition.bad_samples,
        warnings=exposition.warnings,
    )


def _counted(total: float | None) -> float | None:
    """A number of requests; less than none is no number of them."""
    return None if total is None or total < 0 else total


def _growing(exposition: Exposition, names: MetricNames) -> dict[SeriesKey, float]:
    return {
        (series.name, tuple(sorted(series.labels.items()))): series.value
        for aliases in names.counted.values()
        for series in exposition.named(aliases)
        if series.value is not None
    }


def _busy(before: Counters, after: Counters, decodes: float | None) -> float | None:
    """The mean of a window out of two means since the start, each weighted by its passes."""
    a, b = before.busy_slots_per_decode, after.busy_slots_per_decode
    if not decodes or b is None:
        return None
    passes = before.counted["decodes"]
    # Before the first pass the mean is not a number.
    if a is None and passes:
        return None
    busy = b * after.counted["decodes"] - (a or 0.0) * passes
    return max(0.0, busy / decodes)


def _differ(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and a != b


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
