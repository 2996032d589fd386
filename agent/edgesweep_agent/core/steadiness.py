"""Whether a level was the same at its end as at its start: its rate, the hardware, the clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

OVER_CURRENT_S = 0.00107
"""How long an Orin's over-current event holds the clocks down: 27,390 events took 0.9 % of 3,605 s
on an Orin Nano, where seven a second are normal operation."""

_TIME, _EVENTS = "_time", "_events"
_OVER_CURRENT = "throttle_oc3"
_TEMPERATURE = "temperature_"
_STATES = ("throttle_", "clamp_", "undervoltage_alarm")
WATCHED = (_TEMPERATURE, *_STATES)
"""What the names of the readings begin with that say something of a level's steadiness."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A straight line through a level's blocks.

    Attributes:
        change: From the first block to the last, as a share of the mean.
        t: The slope over its standard error; infinite for blocks on one line.
    """

    change: float
    t: float


@dataclass(frozen=True, slots=True)
class SensorLook:
    """What the sensors had to say at one instant: values by the name of the reading."""

    mono_ns: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ClockLook:
    """Both clocks at one instant, in nanoseconds."""

    mono_ns: int
    wall_ns: int


def drift(blocks: Sequence[float]) -> Drift | None:
    """Least squares over equal parts of a level; ``None`` under four parts, or if nothing moved."""
    n = len(blocks)
    mean = math.fsum(blocks) / n if n else 0.0
    if n < 4 or mean <= 0:
        return None
    middle = (n - 1) / 2
    spread = math.fsum((x - middle) ** 2 for x in range(n))
    slope = math.fsum((x - middle) * (y - mean) for x, y in enumerate(blocks)) / spread
    rest = math.fsum((y - mean - slope * (x - middle)) ** 2 for x, y in enumerate(blocks))
    if slope == 0:
        return Drift(0.0, 0.0)
    error = math.sqrt(rest / (n - 2) / spread)
    return Drift(slope * (n - 1) / mean, slope / error if error else math.copysign(math.inf, slope))


def step(blocks: Sequence[float]) -> Drift | None:
    """The best split of a level in two: how far its halves are apart.

    A throttle that sets in, or an engine that changes its way of working, is no line. ``None``
    under four parts, or without a rate.
    """
    mean = math.fsum(blocks) / len(blocks) if blocks else 0.0
    if len(blocks) < 4 or mean <= 0:
        return None
    splits = [_split(blocks[:at], blocks[at:], mean) for at in range(2, len(blocks) - 1)]
    return max(splits, key=lambda one: abs(one.t))


def _split(before: Sequence[float], after: Sequence[float], mean: float) -> Drift:
    """Two means and Student's t of their difference, with a common variance."""
    means = [math.fsum(part) / len(part) for part in (before, after)]
    rest = math.fsum(
        (value - middle) ** 2
        for part, middle in zip((before, after), means, strict=True)
        for value in part
    )
    gap = means[1] - means[0]
    if gap == 0:
        return Drift(0.0, 0.0)
    degrees = len(before) + len(after) - 2
    error = math.sqrt(rest / degrees * (1 / len(before) + 1 / len(after)))
    return Drift(gap / mean, gap / error if error else math.copysign(math.inf, gap))


def clock_step_s(looks: Iterable[ClockLook]) -> float | None:
    """The largest jump of the wall clock against the monotonic one between two looks, signed."""
    drifts = [look.wall_ns - look.mono_ns for look in looks]
    jumps = [(later - earlier) / 1e9 for earlier, later in pairwise(drifts)]
    return max(jumps, key=abs, default=None)


def highest_temperature_c(looks: Iterable[SensorLook]) -> float | None:
    """Of any zone at any look; ``None`` where no sensor told."""
    temperatures = (
        value
        for look in looks
        for name, value in look.values.items()
        if name.startswith(_TEMPERATURE)
    )
    return max(temperatures, default=None)


def throttled_share(looks: Sequence[SensorLook]) -> tuple[float, str] | None:
    """The largest share of the time that one source says was throttled, and which source.

    A cumulative ``*_time`` is exact; a state counts for the time up to the next look; a counter of
    ``*_events`` says only that there was something since the last look, and gives way to a time of
    the same source. ``None`` where no source told.
    """
    span_s = (looks[-1].mono_ns - looks[0].mono_ns) / 1e9 if looks else 0.0
    if span_s <= 0:
        return None
    names = {name for look in looks for name in look.values if name.startswith(_STATES)}
    timed = {name.removesuffix(_TIME) for name in names if name.endswith(_TIME)}
    shares = [
        (share, name)
        for name in sorted(names)
        if not (name.endswith(_EVENTS) and name.removesuffix(_EVENTS) in timed)
        and (share := _share(looks, name, span_s)) is not None
    ]
    return max(shares, key=lambda one: one[0], default=None)


def _share(looks: Sequence[SensorLook], name: str, span_s: float) -> float | None:
    told = [(look.mono_ns / 1e9, look.values[name]) for look in looks if name in look.values]
    if len(told) < 2:
        return None
    if name.endswith(_TIME):
        held_s = max(0.0, told[-1][1] - told[0][1])
    elif name.startswith(_OVER_CURRENT):
        held_s = max(0.0, told[-1][1] - told[0][1]) * OVER_CURRENT_S
    elif name.endswith(_EVENTS):
        held_s = math.fsum(b[0] - a[0] for a, b in pairwise(told) if b[1] > a[1])
    else:
        held_s = math.fsum(b[0] - a[0] for a, b in pairwise(told) if max(a[1], b[1]) > 0)
    return min(1.0, held_s / span_s)
