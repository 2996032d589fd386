"""What was seen while a level ran: of the device, of the engine, of the load generator.

Everything is optional: ``None`` is "not seen", and nothing is concluded from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from .counters import CounterDelta, difference, peaks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .counters import Counters

_LONG_ENOUGH_S = 10.0
"""A counter that grows by whole requests says nothing of a shorter time."""
_CACHED = ("cached_prompt_tokens", "prefix_hits")
"""Tokens of prompts that an engine took from a cache, by its own counters; the better one first."""


@dataclass(frozen=True, slots=True)
class HostEvidence:
    """The device meanwhile.

    Attributes:
        span_s: Monotonic time watched.
        cores: Cores online.
        engine_cpu_s: Processor time of the engine's processes.
        agent_cpu_s: Of the agent's, the load generator included.
        foreign_cpu_s: Of everybody else's; ``None`` where the engine's are not known.
        stolen_cpu_s: Taken by a hypervisor for others.
        foreign_names: Who took most of ``foreign_cpu_s``.
        swap_in_bytes, swap_out_bytes: Of the whole device; zram counts.
        swap_growth_bytes: By how much swap in use grew.
        refault_bytes: File pages evicted and read again: weights, as a rule.
        oom_kills: By the kernel, anywhere on the device.
        stalled_share: Share of the time in which all work waited for memory (PSI "full").
        throttled_share: Share of the time in which the hardware held itself back.
        throttled_by: The sensor that says so.
        temperature_max_c: Of any zone.
        available_min_bytes: Least memory that was available.
        reserve_bytes: What the application beside the engine must be left.
        caps_changed: Clock and power caps before and after, where they differ; "" if not.
        clock_step_s: Largest jump of the wall clock, signed.
    """

    span_s: float | None = None
    cores: int | None = None
    engine_cpu_s: float | None = None
    agent_cpu_s: float | None = None
    foreign_cpu_s: float | None = None
    stolen_cpu_s: float | None = None
    foreign_names: tuple[str, ...] = ()
    swap_in_bytes: int | None = None
    swap_out_bytes: int | None = None
    swap_growth_bytes: int | None = None
    refault_bytes: int | None = None
    oom_kills: int | None = None
    stalled_share: float | None = None
    throttled_share: float | None = None
    throttled_by: str = ""
    temperature_max_c: float | None = None
    available_min_bytes: int | None = None
    reserve_bytes: int | None = None
    caps_changed: str | None = None
    clock_step_s: float | None = None


@dataclass(frozen=True, slots=True)
class EngineEvidence:
    """The engine meanwhile, by its own counters, its processes and its log.

    Attributes:
        running_before, waiting_before: Requests it had just before the level.
        running_peak, waiting_peak: The most of each that a scrape saw.
        running_while_waiting: The most that ran in a scrape that also saw some waiting.
        slots: Requests it works on at once, by its own word.
        kv_used_peak: The most of the KV cache that was in use, as a share.
        preemptions: Requests that it threw out and began again.
        cached_tokens: Prompt tokens that it took from a cache.
        delta: What its counters grew by over the measured time.
        restarted: How it is known to be another one than before; "" if it is the same.
        jit_lines: Lines of its log that tell of compiling.
    """

    running_before: float | None = None
    waiting_before: float | None = None
    running_peak: float | None = None
    waiting_peak: float | None = None
    running_while_waiting: float | None = None
    slots: int | None = None
    kv_used_peak: float | None = None
    preemptions: float | None = None
    cached_tokens: float | None = None
    delta: CounterDelta | None = None
    restarted: str | None = None
    jit_lines: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ClientEvidence:
    """The load generator meanwhile, beside what it measured.

    Attributes:
        cpu_s: Its processor time.
        lag_p99_s, lag_max_s: How late its own timers were.
        realtime: It had a real-time priority.
        icl_p50_s, ttft_p50_s: Medians of what it measured.
    """

    cpu_s: float | None = None
    lag_p99_s: float | None = None
    lag_max_s: float | None = None
    realtime: bool | None = None
    icl_p50_s: float | None = None
    ttft_p50_s: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was seen of one level."""

    host: HostEvidence = field(default_factory=HostEvidence)
    engine: EngineEvidence = field(default_factory=EngineEvidence)
    client: ClientEvidence = field(default_factory=ClientEvidence)

    def values(self) -> dict[str, float]:
        """The figures that belong into a level result, by the names of the metrics registry."""
        host, engine, span_s = self.host, self.engine, self.host.span_s
        told = {
            "memory_available_min_bytes": host.available_min_bytes,
            "swap_in_bytes": host.swap_in_bytes,
            "refault_bytes": host.refault_bytes,
            "temperature_max_c": host.temperature_max_c,
            "throttled_share": host.throttled_share,
            "foreign_cpu_share": _ratio(host.foreign_cpu_s, (span_s or 0) * (host.cores or 0)),
            "client_cpu_share": _ratio(self.client.cpu_s, span_s),
            "engine_running_peak": engine.running_peak,
            "engine_waiting_peak": engine.waiting_peak,
            "kv_used_share": engine.kv_used_peak,
            "preemptions": engine.preemptions,
            **_by_counters(engine.delta),
        }
        return {name: value for name, value in told.items() if value is not None}


def of_scrapes(
    before: Counters | None,
    during: Sequence[Counters],
    seconds: float,
    *,
    lost: str | None = None,
    jit_lines: tuple[str, ...] | None = None,
) -> EngineEvidence:
    """Sum up what an engine told.

    Args:
        before: The last scrape before the first request.
        during: Those since the measuring began, the last one after its end.
        seconds: Monotonic time from the first of ``during`` to the last.
        lost: How its processes are known to be others; "" if they are the same.
        jit_lines: Lines of its log that tell of compiling.
    """
    both = ([before] if before is not None else []) + list(during)
    seen = peaks(during)
    # Rates are of the measured time alone; what must not grow must not in the warm-up either.
    delta = difference(during[0], during[-1], seconds) if len(during) > 1 else None
    grown = difference(both[0], both[-1], seconds).increases if len(both) > 1 else {}
    return EngineEvidence(
        running_before=None if before is None else before.running,
        waiting_before=None if before is None else before.waiting,
        running_peak=seen.running,
        waiting_peak=seen.waiting,
        running_while_waiting=peaks(scrape for scrape in during if scrape.waiting).running,
        slots=next((scrape.slots for scrape in reversed(both) if scrape.slots), None),
        kv_used_peak=seen.kv_cache_usage,
        preemptions=grown.get("preemptions"),
        cached_tokens=next((grown[name] for name in _CACHED if name in grown), None),
        delta=delta,
        restarted=_restarted(both, lost),
        jit_lines=jit_lines,
    )


def _restarted(scrapes: Sequence[Counters], lost: str | None) -> str | None:
    if lost:
        return lost
    told = [scrape for scrape in scrapes if scrape.counted or scrape.process_start is not None]
    if any(difference(a, b, 0.0).restarted for a, b in pairwise(told)):
        return "its counters fell, or it says that it was started anew"
    return "" if lost is not None or len(told) > 1 else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _by_counters(delta: CounterDelta | None) -> dict[str, float | None]:
    """What only differences of counters tell."""
    if delta is None:
        return {}
    return {
        "engine_output_tokens_per_s": (
            delta.per_second("generation_tokens") if delta.seconds >= _LONG_ENOUGH_S else None
        ),
        "busy_slots_per_decode": delta.busy_slots_per_decode,
        "acceptance_share": delta.draft_acceptance,
    }
