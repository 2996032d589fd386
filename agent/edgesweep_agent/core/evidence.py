"""What was seen while a level ran: of the device, of the engine, of the load generator.

Everything is optional: ``None`` is "not seen", and nothing is concluded from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_CACHED = ("cached_prompt_tokens", "prefix_hits")
"""Tokens of prompts that an engine took from a cache, by its own counters; the better one first."""


class Counters(Protocol):
    """One scrape of an engine; figures that only grow are in ``counted``."""

    @property
    def running(self) -> float | None:
        """Requests being worked on."""

    @property
    def waiting(self) -> float | None:
        """Requests that the engine holds back."""

    @property
    def slots(self) -> int | None:
        """Requests it works on at once."""

    @property
    def counted(self) -> Mapping[str, float]:
        """``preemptions``, ``cached_prompt_tokens``, ``generation_tokens`` ..."""

    @property
    def kv_used_share(self) -> float | None:
        """Of the KV cache, the fullest of several engines behind one server."""

    @property
    def process_start(self) -> float | None:
        """Changes with every start of the engine."""


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
        }
        return {name: value for name, value in told.items() if value is not None}


def of_scrapes(
    before: Counters | None,
    during: Sequence[Counters],
    *,
    lost: str | None = None,
    jit_lines: tuple[str, ...] | None = None,
) -> EngineEvidence:
    """Sum up what an engine told.

    Args:
        before: The last scrape before the first request.
        during: Those since the measuring began, the last one after its end.
        lost: How its processes are known to be others; "" if they are the same.
        jit_lines: Lines of its log that tell of compiling.
    """
    both = ([before] if before is not None else []) + list(during)
    waiting = [scrape for scrape in during if scrape.waiting]
    return EngineEvidence(
        running_before=None if before is None else before.running,
        waiting_before=None if before is None else before.waiting,
        running_peak=_highest(during, lambda scrape: scrape.running),
        waiting_peak=_highest(during, lambda scrape: scrape.waiting),
        running_while_waiting=_highest(waiting, lambda scrape: scrape.running),
        slots=next((scrape.slots for scrape in reversed(both) if scrape.slots), None),
        kv_used_peak=_highest(during, lambda scrape: scrape.kv_used_share),
        preemptions=_grown(both, ("preemptions",)),
        cached_tokens=_grown(both, _CACHED),
        restarted=_restarted(both, lost),
        jit_lines=jit_lines,
    )


def _restarted(scrapes: Sequence[Counters], lost: str | None) -> str | None:
    if lost:
        return lost
    told = [scrape for scrape in scrapes if scrape.counted or scrape.process_start is not None]
    for earlier, later in pairwise(told):
        starts = earlier.process_start, later.process_start
        if None not in starts and starts[0] != starts[1]:
            return "the engine says that it was started anew"
        for name, value in later.counted.items():
            if value < earlier.counted.get(name, value):
                return f"its counter of {name} fell"
    return "" if lost is not None or len(told) > 1 else None


def _grown(scrapes: Sequence[Counters], names: Iterable[str]) -> float | None:
    """By how much the first figure that was told twice grew."""
    for name in names:
        values = [scrape.counted[name] for scrape in scrapes if name in scrape.counted]
        if len(values) > 1:
            return max(0.0, values[-1] - values[0])
    return None


def _highest(
    scrapes: Iterable[Counters], figure: Callable[[Counters], float | None]
) -> float | None:
    return max((value for one in scrapes if (value := figure(one)) is not None), default=None)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
