"""What InfluxDB sees of an archived level: one measurement, its tags, its typed fields, its time.

:data:`SCHEMA` fixes the type of every field. InfluxDB keeps a type per shard, so a field that
changes its type is refused for days or, worse, accepted in the next shard and cut from queries
over both (influxdata/influxdb#17953, #26937).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from edgesweep.metrics import QUANTILES, REGISTRY, Metric, Shape
from edgesweep_collector.core.lineprotocol import FieldValue, Point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgesweep.records import Distribution, LevelResult

MEASUREMENT = "edgesweep_level"


class FieldType(Enum):
    """The InfluxDB type of a field, for good."""

    FLOAT = "float"
    INTEGER = "integer"
    STRING = "string"


TAGS = (
    "device",
    "hardware_class",
    "performance_state",
    "workload",
    "engine",
    "contender",
    "model",
    "weight_format",
    "status",
    "thermal",
    "spool",
)
"""Tag names that are ours."""

_MS = 1_000_000
_TIES = 1_000_000

_SCALARS = {name: m for name, m in REGISTRY.items() if m.shape is Shape.SCALAR}
_DISTRIBUTIONS = {name: m for name, m in REGISTRY.items() if m.shape is Shape.DISTRIBUTION}
_FACTS = {
    "run_id": FieldType.STRING,
    "contender_id": FieldType.STRING,
    "contender_name": FieldType.STRING,
    "model_name": FieldType.STRING,
    "engine_version": FieldType.STRING,
    "session": FieldType.INTEGER,
    "attempt": FieldType.INTEGER,
    "concurrency": FieldType.INTEGER,
    "slots": FieldType.INTEGER,
    "n_ok": FieldType.INTEGER,
    "n_failed": FieldType.INTEGER,
    "reason": FieldType.STRING,
    "flags": FieldType.STRING,
}


def _metric_fields(metric: Metric) -> Iterator[tuple[str, FieldType]]:
    if metric.shape is Shape.SCALAR:
        yield metric.name, FieldType.INTEGER if metric.integer else FieldType.FLOAT
        return
    for part in (*QUANTILES, "mean"):
        yield f"{metric.name}_{part}", FieldType.FLOAT
    yield f"{metric.name}_n", FieldType.INTEGER


SCHEMA: dict[str, FieldType] = _FACTS | {
    name: kind for metric in REGISTRY.values() for name, kind in _metric_fields(metric)
}
"""Every field a level may have, with its type."""

_TAKEN = frozenset(TAGS) | frozenset(SCHEMA) | {"time"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record's point is: at a time, in a series.

    Attributes:
        time_ns: In ns since 1970.
        spool: The value of the tag of that name.
    """

    time_ns: int
    spool: str


def place(effective_wall_ns: int, tie: int) -> Place:
    """The place of a record, unlike that of any other of its device, whatever its clock showed.

    A point that shares measurement, tags and time with another overwrites it, and the levels of
    one device, contender and workload share all other tags: session, attempt and concurrency are
    fields, so that a sweep is one series and not thousands. Times alone do not tell them apart:
    a clock steps back, begins at the same instant at each boot, or is so wrong that the time of
    arrival counts, of a whole spool at once.

    So the time is the effective one to the millisecond, which no record is exact to, and the six
    digits below it are the last six of ``tie``; the digits above those are a tag. A device's
    records in turn have the same tag, a million of them at a time, and all of that is of the
    envelope alone: a resend, and a replay from a restored archive, has the same bytes.

    Args:
        effective_wall_ns: The time the record counts for.
        tie: The sum of its spool's epoch, which is random, and its number: unlike that of any
            other record of its device.
    """
    above, below = divmod(tie, _TIES)
    return Place(effective_wall_ns // _MS * _MS + below, f"{above:x}")


def level_point(level: LevelResult, at: Place) -> Point:
    """The one point of ``level`` at its :func:`place`.

    Metrics that this version does not know are left out (:func:`unknown_metrics` names them);
    a metric that was not measured is no field, never a zero.
    """
    fields: dict[str, FieldValue] = dict(_facts(level))
    for name, metric in _SCALARS.items():
        if name in level.values:
            fields[name] = _typed(metric, level.values[name])
    for name in _DISTRIBUTIONS:
        if name in level.distributions:
            fields.update(_distribution(name, level.distributions[name]))
    return Point(MEASUREMENT, _tags(level, at.spool), fields, at.time_ns)


def unknown_metrics(level: LevelResult) -> tuple[str, ...]:
    """Names in ``level`` that are not registered, or not in this shape: a newer agent's."""
    scalars = level.values.keys() - _SCALARS.keys()
    distributions = level.distributions.keys() - _DISTRIBUTIONS.keys()
    return tuple(sorted(scalars)) + tuple(sorted(distributions))


def label_tag(key: str) -> str:
    """The tag of the device label ``key``: itself, or with ``label_`` before it.

    Prefixed are names that are ours (a tag or a field; a name that is both is renamed by 1.x and
    refused by 3), names that InfluxDB keeps for itself, and names that begin with the prefix, so
    that two labels never end in one tag.
    """
    taken = key in _TAKEN or key.startswith(("_", "label_"))
    return f"label_{key}" if taken else key


def _tags(level: LevelResult, spool: str) -> dict[str, str]:
    own = {
        "device": level.device.device_id,
        "hardware_class": level.device.hardware_class,
        "performance_state": level.device.performance_state,
        "workload": level.workload.name,
        "engine": level.contender.engine,
        "contender": level.contender.name,
        "model": level.contender.model,
        "weight_format": level.contender.weight_format,
        "status": level.status.value,
        "thermal": level.attributes.get("thermal", ""),
        "spool": spool,
    }
    labels = {label_tag(key): value for key, value in level.device.labels.items() if key}
    return own | labels


def _facts(level: LevelResult) -> Iterator[tuple[str, FieldValue]]:
    yield "run_id", level.run_id
    yield "contender_id", level.contender.id
    # Tags are normalised; these are the names as they were given.
    yield "contender_name", level.contender.name
    yield "model_name", level.contender.model
    yield "engine_version", level.contender.engine_version
    yield "session", level.session
    yield "attempt", level.attempt
    yield "concurrency", level.concurrency
    if level.contender.slots is not None:
        yield "slots", level.contender.slots
    yield "n_ok", level.n_ok
    yield "n_failed", level.n_failed
    yield "reason", level.reason
    yield "flags", ",".join(sorted({flag.name for flag in level.flags}))


def _typed(metric: Metric, value: float) -> FieldValue:
    # Whether the record says 9 or 9.0 must not decide the type; what is not finite has no
    # integer and is dropped, and counted, when the line is made.
    if metric.integer and math.isfinite(value):
        return round(value)
    return float(value)


def _distribution(name: str, found: Distribution) -> Iterator[tuple[str, FieldValue]]:
    yield f"{name}_n", found.n
    yield f"{name}_mean", float(found.mean)
    for quantile in QUANTILES:
        value: float | None = getattr(found, quantile)
        if value is not None:
            yield f"{name}_{quantile}", float(value)
