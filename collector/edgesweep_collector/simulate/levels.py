"""The records of a run: what its levels came to, with scatter, flags and failures. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from edgesweep.quantiles import FLOORS
from edgesweep.records import (
    Distribution,
    Flag,
    LevelResult,
    LevelStatus,
    MemoryVerdict,
    Run,
    RunState,
)

from .classes import CONTEXT, RESERVE_BYTES, WORKLOAD
from .dice import scatter
from .fleet import Fault
from .shapes import OUTPUT_TOKENS, PROMPT_TOKENS
from .timetable import SESSIONS, slowdown

if TYPE_CHECKING:
    from .classes import Engine
    from .fleet import SimDevice
    from .timetable import Slot, Sweep

_SESSION_SD, _LEVEL_SD, _TTFT_SD, _BLOCK_SD = 0.015, 0.02, 0.04, 0.015
_BLOCKS = 10
_Z = {0.50: 0.0, 0.90: 1.2816, 0.95: 1.6449, 0.99: 2.3263}
_TOP = 2
"""So many of the highest levels are throttled on a device that throttles."""


def started(one: SimDevice, sweep: Sweep, clock_ns: int) -> Run:
    """The snapshot with which a run begins; ``clock_ns`` is the device's wall clock then."""
    plan = {
        "name": "simulated",
        "workloads": [WORKLOAD.name],
        "policy": "fixed",
        "levels": list(one.of.levels),
        "sessions": SESSIONS,
        "thermal": "fresh",
    }
    return Run(
        run_id=sweep.run_id,
        state=RunState.RUNNING,
        device=one.device,
        plan_json=json.dumps(plan),
        contenders=tuple(engine.contender for engine in one.of.engines),
        started_wall_ns=clock_ns,
    )


def ended(run: Run, sweep: Sweep, clock_ns: int) -> Run:
    """The snapshot with which it ends."""
    return replace(run, state=RunState.COMPLETE, ended_wall_ns=clock_ns, n_levels=len(sweep.slots))


def level(one: SimDevice, sweep: Sweep, slot: Slot, wall_ns: int, mono_ns: int) -> LevelResult:
    """What a level came to, at the place and time of ``slot``.

    Args:
        one: The device.
        sweep: The run.
        slot: The level.
        wall_ns: The device's wall clock when it began.
        mono_ns: Its monotonic clock then.
    """
    place = slot.place
    engine = one.of.engines[place.engine]
    made = LevelResult(
        run_id=sweep.run_id,
        device=one.device,
        contender=engine.contender,
        session=place.session,
        workload=WORKLOAD,
        concurrency=place.concurrency,
        status=LevelStatus.VALID,
        started_wall_ns=wall_ns,
        started_mono_ns=mono_ns,
        attributes={"thermal": "fresh", "prompt_lengths": "exact"},
        verdict=_verdict(one, engine, place.concurrency),
    )
    if not slot.requests:
        return replace(made, status=LevelStatus.SKIPPED, reason="memory")
    if _is_beyond_budget(one, slot):
        return replace(made, status=LevelStatus.SKIPPED, reason="time_budget")
    return _spoiled(one, _measured(one, made, sweep, slot))


def _verdict(one: SimDevice, engine: Engine, requests: int) -> MemoryVerdict:
    terms = one.of.needed_bytes(engine, requests)
    return MemoryVerdict(
        admit=one.of.fits(engine, requests),
        needed_bytes=sum(size for _, size in terms),
        available_bytes=one.of.available_bytes,
        reserve_bytes=RESERVE_BYTES,
        limited_by="MemAvailable",
        terms=terms,
    )


def _measured(one: SimDevice, made: LevelResult, sweep: Sweep, slot: Slot) -> LevelResult:
    engine, place = one.of.engines[slot.place.engine], slot.place
    words = (*one.words, sweep.run_id, place.engine, place.session)
    true = one.speeds[place.engine] * slowdown(one, place.engine, sweep.begins_s)
    session = scatter(_SESSION_SD, *words)
    speed = true * math.exp(session + scatter(_LEVEL_SD, *words, place.concurrency))
    # A slow unit is slow in all it does; what scatters from level to level is not the same in each.
    pace = true * math.exp(session + scatter(_TTFT_SD, *words, place.concurrency, "first"))
    rate = engine.curve.output_tokens_per_s(place.concurrency) * speed
    window_ns = round(0.94 * slot.measured_s * 1e9)
    begins_ns = made.started_mono_ns + round((slot.ends_s - slot.begins_s - slot.measured_s) * 1e9)
    waves = (scatter(_BLOCK_SD, *words, place.concurrency, n) for n in range(_BLOCKS))
    return replace(
        made,
        n_ok=slot.requests,
        values=_values(one, engine, place.concurrency, rate, slot),
        distributions=_distributions(engine, place.concurrency, speed, pace, slot.requests),
        block_output_tokens_per_s=tuple(round(rate * math.exp(x), 3) for x in waves),
        window_mono_ns=(begins_ns, begins_ns + window_ns),
    )


def _values(
    one: SimDevice, engine: Engine, concurrency: int, rate: float, slot: Slot
) -> dict[str, float]:
    requests_per_s = rate / OUTPUT_TOKENS
    total = rate * (PROMPT_TOKENS + OUTPUT_TOKENS) / OUTPUT_TOKENS
    gross = 0.96
    most = engine.curve.output_tokens_per_s(engine.curve.slots)
    idle_w, full_w = one.of.power
    power_w = idle_w + (full_w - idle_w) * (0.35 + 0.65 * min(1.0, rate / most))
    kv_bytes = engine.curve.slots * CONTEXT * one.of.model.kv_bytes
    taken = engine.weights_bytes + engine.runtime_bytes + kv_bytes
    return {
        "requests_per_s": requests_per_s,
        "output_tokens_per_s": rate,
        "total_tokens_per_s": total,
        "requests_per_s_gross": gross * requests_per_s,
        "output_tokens_per_s_gross": gross * rate,
        "total_tokens_per_s_gross": gross * total,
        "power_w": power_w,
        "energy_j_per_token": power_w / rate,
        "ready_s": engine.ready_s,
        "memory_peak_bytes": float(taken),
        "memory_available_min_bytes": float(one.of.available_bytes - taken),
        "kv_reserved_bytes": float(kv_bytes),
        "kv_used_share": min(1.0, concurrency / engine.curve.slots) * 0.6,
        "bytes_per_request": float(CONTEXT * one.of.model.kv_bytes),
        "engine_running_peak": float(min(concurrency, engine.curve.slots)),
        "throttled_share": 0.0,
        "window_s": 0.94 * slot.measured_s,
        "duration_s": slot.measured_s,
        "prompt_tokens": float(slot.requests * PROMPT_TOKENS),
        "output_tokens": float(slot.requests * OUTPUT_TOKENS),
        "peak_in_flight": float(concurrency),
    }


def _distributions(
    engine: Engine, concurrency: int, speed: float, pace: float, n: int
) -> dict[str, Distribution]:
    curve = engine.curve
    medians = {
        "ttft_s": (curve.ttft_s(concurrency) / pace, 0.22),
        "ttfr_s": (0.98 * curve.ttft_s(concurrency) / pace, 0.22),
        "tpot_s": (curve.tpot_s(concurrency) / speed, 0.06),
        "icl_s": (curve.tpot_s(concurrency) / speed, 0.15),
        "e2e_s": (curve.e2e_s(concurrency) / speed, 0.09),
        "queue_s": (0.0004, 0.30),
    }
    return {name: _lognormal(median, cv, n) for name, (median, cv) in medians.items()}


def _lognormal(median: float, sd: float, n: int) -> Distribution:
    """Of ``n`` values with that median and spread, as they are expected to lie."""
    reach = math.sqrt(2 * math.log(n))
    p50, p90, p95, p99 = (
        median * math.exp(_Z[p] * sd) if n >= FLOORS[p] else None for p in (0.50, 0.90, 0.95, 0.99)
    )
    return Distribution(
        n=n,
        mean=median * math.exp(sd * sd / 2),
        min=median * math.exp(-reach * sd),
        max=median * math.exp(reach * sd),
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
    )


def _is_beyond_budget(one: SimDevice, slot: Slot) -> bool:
    last = slot.place.session == SESSIONS and slot.place.concurrency == one.of.levels[-1]
    return Fault.LEVELS_SKIPPED in one.faults and last


def _spoiled(one: SimDevice, made: LevelResult) -> LevelResult:
    """With what the device's fault does to it."""
    fitting = [x for x in one.of.levels if x <= (made.contender.slots or 0)]
    is_last = made.contender.engine == "vllm" and made.concurrency == fitting[-1]
    if Fault.LEVELS_FAIL in one.faults and is_last:
        failed = max(1, made.n_ok // 2)
        return replace(
            made,
            status=LevelStatus.FAILED,
            reason="errors",
            n_ok=made.n_ok - failed,
            n_failed=failed,
            failed_by={"connection_reset": failed},
        )
    if Fault.LEVELS_FLAGGED in one.faults and made.concurrency in fitting[-_TOP:]:
        flag = Flag("throttled", 0.31, 0.02, "the hardware held itself back: sw thermal slowdown")
        values = {**made.values, "throttled_share": 0.31}
        return replace(made, status=LevelStatus.FLAGGED, flags=(flag,), values=values)
    return made
