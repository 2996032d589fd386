"""Everything a report shows, gathered beforehand: rendering asks nobody and no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from edgesweep.metrics import REGISTRY, Better

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from edgesweep_collector.core.answer import Answer
    from edgesweep_collector.core.problem import Side

Status: TypeAlias = Literal["valid", "flagged", "queued", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric as the reader should understand it; ``name`` is its key in level rows."""

    name: str
    title: str
    unit: str
    higher_is_better: bool
    definition: str

    @classmethod
    def of(cls, name: str, title: str, unit: str) -> MetricDefinition:
        """A registered metric under a title, and in a unit, that a reader knows.

        Raises:
            KeyError: no metric of this name is registered.
        """
        metric = REGISTRY[name]
        return cls(name, title, unit, metric.better is Better.HIGHER, metric.description)


@dataclass(frozen=True, slots=True)
class ContenderFacts:
    """One engine configuration; ``managed`` if the sweep started the engine, else attached to it.

    ``settings`` are the knobs that belong to the result, never secrets.
    """

    side: Side
    name: str
    engine: str
    version: str
    model: str
    weight_format: str
    managed: bool
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LevelRow:
    """What one level of one contender came to; latencies are medians in seconds.

    A figure is None where it was not measured or where too few requests allow it.
    """

    side: Side
    concurrency: int
    status: Status
    reason: str | None
    n_ok: int
    n_failed: int
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    output_tokens_per_s: float | None = None
    output_tokens_per_s_gross: float | None = None
    requests_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer on one metric, with its sentence."""

    metric: MetricDefinition
    answer: Answer
    words: str


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """One device, one pair of contenders, one workload, and what the sweep found.

    ``labels`` are the device's own (site, line, asset). ``caveats`` say what the report does not
    show, ``reproduce`` are the command lines that measured it.
    """

    title: str
    generated_at: datetime
    device_id: str
    labels: Mapping[str, str]
    hardware_class: str
    contenders: tuple[ContenderFacts, ...]
    workload: str
    levels: tuple[LevelRow, ...]
    answers: tuple[Finding, ...]
    caveats: tuple[str, ...] = ()
    reproduce: tuple[str, ...] = ()

    def contender(self, side: Side) -> str:
        """The name of a side's contender, or its letter if the report knows none."""
        return next((c.name for c in self.contenders if c.side == side), side)
