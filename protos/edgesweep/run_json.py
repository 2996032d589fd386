"""A run with its levels as the one JSON object that both sides print: ``edgesweep.run/1``.

Pure, and strict JSON: a figure that was not measured, or is not finite, is ``null``, and so is a
fact that nobody told. The format is frozen (``schemas/run.1.schema.json``): keys are only added.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from .metrics import QUANTILES, REGISTRY, Metric, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .records import (
        Contender,
        Device,
        Distribution,
        Flag,
        LevelResult,
        MemoryVerdict,
        Run,
        Workload,
    )

SCHEMA = "edgesweep.run/1"


def run_object(run: Run, levels: Sequence[LevelResult]) -> dict[str, object]:
    """The run as a JSON object, its levels in the order given.

    A contender that only a level knows of is listed too: levels carry theirs in full. A plan that
    is not a JSON object is kept as text under ``unreadable``. Instants are those of the wall clock.
    """
    contenders = {contender.id: contender for contender in run.contenders}
    contenders.update((level.contender.id, level.contender) for level in levels)
    return {
        "schema": SCHEMA,
        "run_id": run.run_id,
        "state": run.state.value,
        "reason": run.reason,
        "started_at_ns": run.started_wall_ns,
        "ended_at_ns": run.ended_wall_ns,
        "device": _device(run.device),
        "plan": _plan(run.plan_json),
        "contenders": {key: _contender(contender) for key, contender in contenders.items()},
        "workloads": {level.workload.name: _workload(level.workload) for level in levels},
        "levels": [level_object(level) for level in levels],
    }


def level_object(level: LevelResult) -> dict[str, object]:
    """One level, flat: who, what and when first, then every registered metric.

    Instants are those of the wall clock but for ``started_mono_ns``, which places a level on the
    clock of its samples.

    A distribution is ``{n, mean, min, max, p50, p90, p95, p99}`` with ``null`` for a quantile
    that ``n`` does not allow; a metric that was not measured is ``null``.
    """
    window = level.window_wall_ns or (None, None)
    return {
        "contender_id": level.contender.id,
        "session": level.session,
        "workload": level.workload.name,
        "concurrency": level.concurrency,
        "attempt": level.attempt,
        "started_at_ns": level.started_wall_ns,
        "started_mono_ns": level.started_mono_ns,
        "window_start_ns": window[0],
        "window_end_ns": window[1],
        "status": level.status.value,
        "flags": [flag.name for flag in level.flags],
        "flag_details": [_flag(flag) for flag in level.flags],
        "reason": level.reason,
        "n_ok": level.n_ok,
        "n_failed": level.n_failed,
        "failed_by": dict(level.failed_by),
        **{metric.name: _metric(metric, level) for metric in REGISTRY.values()},
        "attributes": dict(level.attributes),
        "verdict": _verdict(level.verdict),
        "block_output_tokens_per_s": [_finite(rate) for rate in level.block_output_tokens_per_s],
    }


def _metric(metric: Metric, level: LevelResult) -> object:
    if metric.shape is Shape.DISTRIBUTION:
        return _distribution(level.distributions.get(metric.name))
    value = _finite(level.values.get(metric.name))
    return round(value) if metric.integer and value is not None else value


def _distribution(d: Distribution | None) -> dict[str, object] | None:
    if d is None:
        return None
    figures = ("mean", "min", "max", *QUANTILES)
    return {"n": d.n, **{name: _finite(getattr(d, name)) for name in figures}}


def _verdict(verdict: MemoryVerdict | None) -> dict[str, object] | None:
    if verdict is None:
        return None
    return {
        "admit": verdict.admit,
        "needed_bytes": verdict.needed_bytes,
        "available_bytes": verdict.available_bytes,
        "reserve_bytes": verdict.reserve_bytes,
        "limited_by": verdict.limited_by,
        "terms": {_term(name): size for name, size in verdict.terms},
        "text": verdict.text,
    }


def _term(name: str) -> str:
    """A key that does not change: the KV cache's name is its arithmetic (``KV 4 x 512 x 8 B``)."""
    return "kv" if name.startswith("KV ") else name.replace(" ", "_")


def _flag(flag: Flag) -> dict[str, object]:
    return {
        "name": flag.name,
        "value": _finite(flag.value),
        "threshold": _finite(flag.threshold),
        "detail": flag.detail,
    }


def _device(device: Device) -> dict[str, object]:
    return {
        "device_id": device.device_id,
        "hardware_class": device.hardware_class or None,
        "performance_state": device.performance_state or None,
        "attributes": dict(device.attributes),
        "labels": dict(device.labels),
    }


def _contender(contender: Contender) -> dict[str, object]:
    return {
        "name": contender.name,
        "engine": contender.engine,
        "engine_version": contender.engine_version or None,
        "build": contender.build or None,
        "model": contender.model or None,
        "model_sha256": contender.model_sha256 or None,
        "weight_format": contender.weight_format or None,
        "slots": contender.slots,
        "context_per_request": contender.context_per_request,
        "managed": contender.managed,
        "launcher": contender.launcher or None,
        "settings": dict(contender.settings),
    }


def _workload(workload: Workload) -> dict[str, object]:
    return {"prompt_tokens": workload.prompt_tokens, "output_tokens": workload.output_tokens}


def _plan(text: str) -> dict[str, object]:
    try:
        # json.loads takes NaN, and 1e999 for infinity, which strict JSON cannot say.
        plan = json.loads(
            text or "{}",
            parse_constant=lambda _: None,
            parse_float=lambda number: _finite(float(number)),
        )
    except (ValueError, RecursionError):
        plan = None
    return plan if isinstance(plan, dict) else {"unreadable": text}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
