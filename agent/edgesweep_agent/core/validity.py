"""Which flags a level earns from what was seen while it ran.

Each rule has the smallest fault that it must catch in the docstring of its threshold. What
happens on any box (a cron job, a waking daemon, a timer that is late once) stays under it: a rule
asks for a share of the level *and* for an amount that can matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep.records import Flag, LevelStatus

from .steadiness import drift, step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from edgesweep.records import Sample

    from .evidence import Evidence

CACHED_REQUESTS_THRESHOLD = 0.01
"""Share of requests that took part of their prompt from a cache; as ``errors``. One in a hundred
moves no median; one in eleven, the smallest level, is caught."""
CACHED_TOKENS_SLACK = 16
"""Tokens beyond the chat template that a prompt may share by accident: one block of vLLM's cache.
A prompt of 64 tokens asked twice has more (48 of 64 in whole blocks, less a template of 31)."""
CACHED_PROMPT_SHARE = 0.05
"""Of a long prompt: a twentieth of a prefill saved is within the spread of TTFT."""
FOREIGN_CPU_THRESHOLD = 0.10
"""Mean cores taken by others: a tenth of one. Beside a job on both cores llama.cpp fell from 41 to
0.9 tokens/s, since its threads wait for one another at every layer."""
FOREIGN_CPU_MIN_S = 0.2
"""What a cron job or a package's timer may take in a short level; a level of two seconds and more
is judged by the share."""
SWAP_IN_THRESHOLD = 256 * 1024
"""Bytes a second: 64 pages, which cost 6 % of the time at a millisecond each (an SD card)."""
SWAP_IN_MIN = 4 << 20
"""Bytes: a daemon that wakes reads back this much of itself, once."""
SWAP_GROWTH_THRESHOLD = 256 << 20
"""Bytes moved out to swap: the level only fits because something else does not any more."""
REFAULT_WEIGHTS_SHARE = 0.05
"""Of the weights, read again over the level: they did not stay in memory."""
REFAULT_MIN = 16 << 20
"""Bytes: what logs and package timers evict from the page cache of a small box."""
REFAULT_UNKNOWN = 64 << 20
"""Bytes, where nobody knows how large the weights are."""
STALLED_THRESHOLD = 0.05
"""Share of the time in which everything waited for memory (PSI "full"): a twentieth, and it is the
engine's time, since an engine that computes would end the stall."""
STALLED_MIN_S = 0.1
THROTTLED_THRESHOLD = 0.02
"""Share of the time. An Orin Nano in normal operation has 0.9 % in over-current events alone, for
0.45 % of its speed; a supply or a heat sink that does not suffice is far above."""
LAG_OF_CHUNK_GAP = 0.5
"""The load generator's own delay (p99) against the median gap between chunks: at half a gap the
gaps it reports are its own. On few cores it always waits a little, and that is no fault."""
LAG_OF_TTFT = 0.1
"""Likewise against the median TTFT: a tenth of it."""
LAG_MIN_S = 0.002
"""A delay that no wait for a processor can be told from (a scheduler's slice is 1 to 4 ms)."""
CLOCK_STEP_THRESHOLD_S = 0.1
"""NTP slews at most 0.5 ms a second, and steps from 0.128 s (ntpd) or 0.4 s (timesyncd)."""
DRIFT_THRESHOLD = 0.10
"""Change of the token rate from the first tenth of a level to the last."""
DRIFT_T = 6.0
"""Slope over its standard error, eight degrees of freedom: by chance in 3 of 10,000 levels."""
STEP_T = 10.0
"""Difference of the two parts over its standard error, for the best of seven splits: by chance in
fewer than one of 10,000 levels. A step of a tenth is caught where blocks vary by 2 %."""

CAVEATS = frozenset({"cache_unproven", "drifted"})
"""Flags of this module that leave a level valid."""
_SLOT_LIMIT = "slot_limit"


@dataclass(frozen=True, slots=True)
class LevelFacts:
    """What is known of a level from its own samples.

    Attributes:
        concurrency: The level.
        in_flight: The most requests of the measured that were under way at once.
        requests: All that were sent, warm-up included.
        samples: The measured ones.
        blocks: Output tokens per second in equal parts of the steady window.
    """

    concurrency: int
    in_flight: int
    requests: int
    samples: Sequence[Sample] = ()
    blocks: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Expectations:
    """What is normal for this contender and workload.

    Attributes:
        shares_prompts: The requests share text on purpose, so that a cache may be used.
        cache_off: The agent started the engine with its prefix cache off.
        template_tokens: What the chat template adds to each prompt; a cache may hold that.
        slots: Requests that the engine works on at once.
        may_queue: Requests come when they like (open loop): a queue is part of the measurement.
        weights_bytes: Size of the model.
        soaked: The device was heated on purpose: throttling is stated, and no fault.
    """

    shares_prompts: bool = False
    cache_off: bool = False
    template_tokens: int = 0
    slots: int | None = None
    may_queue: bool = False
    weights_bytes: int | None = None
    soaked: bool = False


def flags(level: LevelFacts, seen: Evidence, expected: Expectations) -> tuple[Flag, ...]:
    """All flags that the evidence earns a level, in a fixed order; what was not seen earns none."""
    return tuple(flag for rule in _RULES for flag in rule(level, seen, expected))


def judged(
    status: LevelStatus, reason: str, flags: Iterable[Flag], *, soaked: bool = False
) -> tuple[LevelStatus, str]:
    """Status and reason of a level whose samples alone gave ``status`` and ``reason``.

    Args:
        status: Of the samples.
        reason: Likewise.
        flags: Those of this module.
        soaked: ``throttled`` is a caveat.
    """
    names = {flag.name for flag in flags}
    if status is LevelStatus.FAILED and "oom" in names:
        return LevelStatus.FAILED, "oom"
    spoiling = names - CAVEATS - ({"throttled"} if soaked else set())
    if status in {LevelStatus.FAILED, LevelStatus.SKIPPED} or not spoiling:
        return status, reason
    return LevelStatus.FLAGGED, _SLOT_LIMIT if "queued" in spoiling else reason


def _cache(level: LevelFacts, seen: Evidence, expected: Expectations) -> Iterator[Flag]:
    """Samples say it best; the engine's counters stand in for them, over all of the level."""
    if expected.shares_prompts:
        return
    ok = [sample for sample in level.samples if sample.ok]
    told = [sample for sample in ok if sample.cached_tokens is not None]
    if told:
        share = sum(_took_from_cache(sample, expected) for sample in told) / len(ok)
        if share > CACHED_REQUESTS_THRESHOLD:
            detail = "requests had part of their prompt in a cache"
            yield Flag("cache_contaminated", share, CACHED_REQUESTS_THRESHOLD, detail)
    elif seen.engine.cached_tokens is not None:
        yield from _cache_by_counters(level, seen.engine.cached_tokens, expected)
    elif ok and not expected.cache_off:
        yield Flag("cache_unproven", detail="the engine does not say what it took from a cache")


def _took_from_cache(sample: Sample, expected: Expectations) -> bool:
    """Slack beyond the template."""
    slack = max(CACHED_TOKENS_SLACK, CACHED_PROMPT_SHARE * (sample.prompt_tokens or 0))
    return (sample.cached_tokens or 0) > expected.template_tokens + slack


def _cache_by_counters(level: LevelFacts, cached: float, expected: Expectations) -> Iterator[Flag]:
    allowed = level.requests * (expected.template_tokens + CACHED_TOKENS_SLACK)
    prompts = [s.prompt_tokens for s in level.samples if s.ok and s.prompt_tokens is not None]
    if cached <= allowed or not prompts:
        return
    share = (cached - allowed) / (level.requests * math.fsum(prompts) / len(prompts))
    if share > CACHED_REQUESTS_THRESHOLD:
        detail = "of the prompts' tokens came from a cache, by the engine's counters"
        yield Flag("cache_contaminated", share, CACHED_REQUESTS_THRESHOLD, detail)


def _dirty_start(_level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    """One request of somebody else, or one that was left behind, is enough."""
    busy = (seen.engine.running_before or 0) + (seen.engine.waiting_before or 0)
    if busy > 0:
        yield Flag(
            "dirty_start", busy, 0.0, "requests that the engine had before the first of ours"
        )


def _restarted(_level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    """Any restart."""
    if seen.engine.restarted:
        yield Flag("engine_restarted", detail=seen.engine.restarted)


def _preempted(_level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    """One: a request computed twice is beyond the memory that the level had."""
    if seen.engine.preemptions:
        detail = "requests thrown out and begun again"
        yield Flag("preempted", seen.engine.preemptions, 0.0, detail)


def _queued(level: LevelFacts, seen: Evidence, expected: Expectations) -> Iterator[Flag]:
    """One request more than there are slots; one that waited while all slots were taken."""
    slots = expected.slots or seen.engine.slots
    if slots is None:
        return
    if level.concurrency > slots:
        detail = "requests at once, more than the engine has slots"
        yield Flag("queued", level.concurrency, slots, detail)
    elif (seen.engine.running_while_waiting or 0) >= slots and not expected.may_queue:
        detail = "requests waited while all slots were taken"
        yield Flag("queued", seen.engine.waiting_peak, 0.0, detail)


def _memory_floor(_level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    """A byte under the reserve: it is the application's."""
    least, reserve = seen.host.available_min_bytes, seen.host.reserve_bytes
    if least is not None and reserve is not None and least < reserve:
        yield Flag("memory_floor", least, reserve, "least memory available, against the reserve")


def _swapping(_level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    host = seen.host
    if host.span_s and (host.swap_in_bytes or 0) >= SWAP_IN_MIN:
        rate = (host.swap_in_bytes or 0) / host.span_s
        if rate > SWAP_IN_THRESHOLD:
            yield Flag("swapping", rate, SWAP_IN_THRESHOLD, "bytes a second read back from swap")
            return
    if (host.swap_growth_bytes or 0) > SWAP_GROWTH_THRESHOLD:
        detail = "bytes more in swap"
        yield Flag("swapping", host.swap_growth_bytes, SWAP_GROWTH_THRESHOLD, detail)


def _refault(_level: LevelFacts, seen: Evidence, expected: Expectations) -> Iterator[Flag]:
    weights = expected.weights_bytes
    bound = REFAULT_UNKNOWN
    if weights is not None:
        bound = max(REFAULT_MIN, round(REFAULT_WEIGHTS_SHARE * weights))
    stalled, span_s = seen.host.stalled_share, seen.host.span_s or 0.0
    if (seen.host.refault_bytes or 0) > bound:
        yield Flag("refault", seen.host.refault_bytes, bound, "bytes of files evicted, read again")
    elif (stalled or 0) > STALLED_THRESHOLD and (stalled or 0) * span_s >= STALLED_MIN_S:
        detail = "share of the time in which everything waited for memory"
        yield Flag("refault", stalled, STALLED_THRESHOLD, detail)


def _oom(_level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    """One kill, of whatever process."""
    if seen.host.oom_kills:
        yield Flag("oom", seen.host.oom_kills, 0.0, "processes killed for memory on this device")


def _throttled(_level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    share = seen.host.throttled_share
    if share is not None and share > THROTTLED_THRESHOLD:
        yield Flag("throttled", share, THROTTLED_THRESHOLD, f"by {seen.host.throttled_by}")
    elif seen.host.caps_changed:
        yield Flag("throttled", detail=f"the caps changed: {seen.host.caps_changed}")


def _client_limited(_level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    client = seen.client
    bounds = [
        part * measured_s
        for part, measured_s in (
            (LAG_OF_CHUNK_GAP, client.icl_p50_s),
            (LAG_OF_TTFT, client.ttft_p50_s),
        )
        if measured_s is not None
    ]
    if client.lag_p99_s is None or not bounds:
        return
    bound = max(LAG_MIN_S, min(bounds))
    if client.lag_p99_s > bound:
        low = "" if client.realtime else "; it has no real-time priority (LimitRTPRIO=1)"
        detail = f"seconds by which the load generator itself was late (p99){low}"
        yield Flag("client_limited", client.lag_p99_s, bound, detail)


def _jit_compiled(_level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    """One line: a compilation takes longer than a request."""
    if seen.engine.jit_lines:
        detail = seen.engine.jit_lines[0][:200]
        yield Flag("jit_compiled", len(seen.engine.jit_lines), 0.0, detail)


def _clock_stepped(_level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    step_s = seen.host.clock_step_s
    if step_s is not None and abs(step_s) > CLOCK_STEP_THRESHOLD_S:
        detail = "seconds by which the wall clock jumped"
        yield Flag("clock_stepped", step_s, CLOCK_STEP_THRESHOLD_S, detail)


def _foreign_load(level: LevelFacts, seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    """A tenth of a core; or one request, in any scrape, beyond those that were ours."""
    host, running = seen.host, seen.engine.running_peak
    ours = max(level.concurrency, level.in_flight)
    if running is not None and running > ours:
        detail = f"requests in the engine at once, of which {ours} at most were ours"
        yield Flag("foreign_load", running, ours, detail)
        return
    if host.span_s and host.foreign_cpu_s is not None:
        foreign_s = host.foreign_cpu_s + (host.stolen_cpu_s or 0.0)
        cores = foreign_s / host.span_s
        if cores > FOREIGN_CPU_THRESHOLD and foreign_s >= FOREIGN_CPU_MIN_S:
            yield Flag("foreign_load", cores, FOREIGN_CPU_THRESHOLD, _took(seen))


def _took(seen: Evidence) -> str:
    stolen_s = seen.host.stolen_cpu_s or 0.0
    stolen = [f"the hypervisor {stolen_s:.1f} s"] if stolen_s >= FOREIGN_CPU_MIN_S else []
    names = ", ".join([*seen.host.foreign_names, *stolen])
    return "cores taken by neither the engine nor the agent" + (f": {names}" if names else "")


def _drifted(level: LevelFacts, _seen: Evidence, _expected: Expectations) -> Iterator[Flag]:
    """A steady fall, or rise, of a tenth: the figure then depends on how long the level was."""
    line = drift(level.blocks)
    if line is not None and abs(line.change) > DRIFT_THRESHOLD and abs(line.t) > DRIFT_T:
        detail = "change of the token rate from the level's first tenth to its last"
        yield Flag("drifted", line.change, DRIFT_THRESHOLD, detail)
        return
    found = step(level.blocks)
    if found is not None and abs(found.change) > DRIFT_THRESHOLD and abs(found.t) > STEP_T:
        detail = "step of the token rate within the level"
        yield Flag("drifted", found.change, DRIFT_THRESHOLD, detail)


_RULES: tuple[Callable[[LevelFacts, Evidence, Expectations], Iterator[Flag]], ...] = (
    _cache,
    _dirty_start,
    _restarted,
    _preempted,
    _queued,
    _memory_floor,
    _swapping,
    _refault,
    _oom,
    _throttled,
    _client_limited,
    _jit_compiled,
    _clock_stepped,
    _foreign_load,
    _drifted,
)
