"""The energy of a level, from what the sampler kept of its time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgesweep_agent.core import energy
from edgesweep_agent.core.window import Window, whole_window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgesweep.records import Sample
    from edgesweep_agent.core.energy import Energy
    from edgesweep_agent.core.summary import LevelSummary
    from edgesweep_agent.sensors.sampler import Sampler

    from .box import Box


@dataclass(frozen=True, slots=True)
class Power:
    """Metrics by their registered names, and what lies within them."""

    values: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)


def of_level(box: Box, summary: LevelSummary, samples: Sequence[Sample]) -> Power:
    """Per token over the windows of the rates; per task over the whole level.

    Without a figure the record says why there is none.
    """
    sampler = box.sampler
    if sampler is None or not summary.windows_ns:
        return Power()
    parts = [_energy(sampler, Window(*span)) for span in summary.windows_ns]
    absent = next((part for part in parts if part.joules is None), None)
    if absent is not None:
        return Power({}, {"energy_absent": absent.reason})
    seconds = sum(Window(*span).seconds for span in summary.windows_ns)
    joules = sum(part.joules or 0.0 for part in parts)
    tokens = summary.values.get("output_tokens_per_s", 0.0) * seconds
    told = {
        "power_w": joules / seconds if seconds else None,
        "energy_j_per_token": joules / tokens if tokens else None,
        "energy_j_per_task": _per_task(sampler, summary, samples),
    }
    values = {name: value for name, value in told.items() if value is not None}
    return Power(values, {"energy_boundary": parts[0].boundary})


def _per_task(sampler: Sampler, summary: LevelSummary, samples: Sequence[Sample]) -> float | None:
    tasks, whole = summary.distributions.get("task_s"), whole_window(samples)
    if tasks is None or whole is None:
        return None
    return energy.per(_energy(sampler, whole), tasks.n)


def _energy(sampler: Sampler, window: Window) -> Energy:
    return energy.best(sampler.power(window.start_ns, window.end_ns), window)
