"""What is true of a fleet, to check against it what a collector makes of its records. Pure."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from .classes import CLASSES, WORKLOAD
from .fleet import OUTLIER, Fault
from .shapes import crossing
from .timetable import sweeps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .classes import HardwareClass
    from .fleet import Fleet

_SHOWN_RUNS = 5


def truth(fleet: Fleet) -> dict[str, object]:
    """Everything that was planted, as JSON."""
    options = fleet.options
    return {
        "seed": options.seed,
        "start_ns": options.start_ns,
        "classes": {key: _class(fleet, CLASSES[key]) for key in options.classes},
        "outliers": {
            "speed_over_siblings": OUTLIER,
            "devices": [one.device_id for one in fleet.devices if one.outlier],
        },
        "regression": _regression(fleet),
        "faults": {
            fault.value: [one.device_id for one in fleet.devices if fault in one.faults]
            for fault in Fault
        },
    }


def lines(fleet: Fleet) -> Iterator[str]:
    """The same for people."""
    for key in fleet.options.classes:
        of = CLASSES[key]
        a, b = (engine.contender.name for engine in of.engines)
        yield f"{key} ({len(fleet.by_class[key])} devices, {of.hardware_class})"
        for metric, name in (("output_tokens_per_s", "throughput"), ("ttft_s", "first token")):
            yield f"  {name}: {_in_words(_answer(of, metric), a, b)}"
    outliers = [one.device_id for one in fleet.devices if one.outlier]
    if outliers:
        yield f"slow units ({OUTLIER:.0%} of their siblings' speed): {', '.join(outliers)}"
    for change in fleet.regressions:
        with_what = f"agent {change.agent_version}" if change.agent_version else "nothing else"
        yield (
            f"{fleet.regressed}: {CLASSES[str(fleet.regressed)].second.contender.name} has "
            f"{change.factor:.0%} of its speed in runs that begin {change.at_s:.0f} s after the "
            f"start or later, which changes with {with_what}"
        )
    for fault in Fault:
        devices = [one.device_id for one in fleet.devices if fault in one.faults]
        if devices:
            yield f"{fault.value}: {', '.join(devices)}"


def _class(fleet: Fleet, of: HardwareClass) -> dict[str, object]:
    devices = fleet.by_class[of.key]
    return {
        "hardware_class": of.hardware_class,
        "devices": len(devices),
        "workload": WORKLOAD.name,
        "contenders": {
            side: engine.contender.name for side, engine in zip("AB", of.engines, strict=True)
        },
        "levels": list(of.levels),
        "most_that_fits": {one.contender.name: one.contender.slots for one in of.engines},
        "answers": {metric: _answer(of, metric) for metric in ("output_tokens_per_s", "ttft_s")},
        # Of units that are as their siblings are: what a comparison of the class is made of.
        "first_runs": [
            next(sweeps(one)).run_id for one in devices if not one.outlier and not one.faults
        ][:_SHOWN_RUNS],
    }


def _regression(fleet: Fleet) -> dict[str, object] | None:
    for change in fleet.regressions:
        return {
            "class": fleet.regressed,
            "contender": CLASSES[str(fleet.regressed)].second.contender.name,
            "factor": change.factor,
            "from_ns": fleet.options.start_ns + round(change.at_s * 1e9),
            "agent_version": change.agent_version,
        }
    return None


def _answer(of: HardwareClass, metric: str) -> dict[str, object]:
    """Who leads where, without noise.

    ``concurrency`` is the point where the curves meet; ``on_levels`` is where straight lines
    between the measured levels do, which is what a comparison of the levels should find.
    """
    first, second = (engine.curve for engine in of.engines)
    a = first.output_tokens_per_s if metric == "output_tokens_per_s" else first.ttft_s
    b = second.output_tokens_per_s if metric == "output_tokens_per_s" else second.ttft_s
    sign = 1.0 if metric == "output_tokens_per_s" else -1.0
    levels = [level for level in of.levels if level <= min(first.slots, second.slots)]
    meets = crossing(a, b, levels[-1])
    b_leads_first = sign * math.log(b(1.0) / a(1.0)) > 0
    limit = _limit(of, b_leads_last=b_leads_first == (meets is None))
    if meets is None:
        return {"verdict": "B_DOMINATES" if b_leads_first else "A_DOMINATES", **limit}
    verdict = "CROSSOVER_B_TO_A" if b_leads_first else "CROSSOVER_A_TO_B"
    return {
        "verdict": "MULTIPLE_CROSSINGS" if limit else verdict,
        "concurrency": round(meets, 3),
        "on_levels": round(_on_levels(a, b, levels), 3),
        "direction": verdict.removeprefix("CROSSOVER_"),
        **limit,
    }


def _limit(of: HardwareClass, *, b_leads_last: bool) -> dict[str, object]:
    """Where memory ends the one that leads at the last common level, and not the other."""
    ahead, behind = of.engines[b_leads_last], of.engines[not b_leads_last]
    last = ahead.curve.slots
    if last >= behind.curve.slots:
        return {}
    above = min(level for level in of.levels if level > last)
    return {"beyond": {"between": [last, above], "only": "A" if b_leads_last else "B"}}


def _on_levels(
    a: Callable[[float], float], b: Callable[[float], float], levels: list[int]
) -> float:
    for low, high in pairwise(levels):
        before, after = (math.log(b(level) / a(level)) for level in (low, high))
        if before * after <= 0:
            return low * math.exp(before / (before - after) * math.log(high / low))
    raise ValueError("the same one leads at every level")


def _in_words(answer: dict[str, object], a: str, b: str) -> str:
    verdict, limit = answer["verdict"], ""
    if isinstance(beyond := answer.get("beyond"), dict):
        alone = a if beyond["only"] == "A" else b
        limit = f"; above {beyond['between'][0]} the memory is enough for {alone} alone"
    if verdict in {"A_DOMINATES", "B_DOMINATES"}:
        return f"{a if verdict == 'A_DOMINATES' else b} leads at every level{limit}"
    overtakes, behind = (b, a) if answer["direction"] == "A_TO_B" else (a, b)
    return (
        f"{overtakes} overtakes {behind} at {answer['concurrency']} requests "
        f"({answer['on_levels']} by straight lines between the levels){limit}"
    )
