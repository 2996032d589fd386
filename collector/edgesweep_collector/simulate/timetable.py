"""When a device measures what: its sweeps, one after the other, as a clock would see them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .dice import dice, uuid7

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .classes import HardwareClass
    from .fleet import SimDevice

SESSIONS = 3
_ORDER = ((0, 1), (1, 0), (0, 1))
"""Contenders by session: AB, BA, AB."""
_LEAST_REQUESTS, _PER_STREAM = 12, 3
_WARM_UP_S = 8.0
_FIRST_RUN_S = 45.0
_VERDICT_S = 0.01


@dataclass(frozen=True, slots=True)
class Place:
    """Which level: ``engine`` is 0 for the first contender, 1 for the second."""

    engine: int
    session: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Slot:
    """One level of a run; seconds from the start of the fleet.

    Attributes:
        requests: The measured ones.
        measured_s: How long they take; 0 for a level that does not fit.
    """

    place: Place
    begins_s: float
    ends_s: float
    requests: int
    measured_s: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """One run: its levels in the order of their making."""

    number: int
    run_id: str
    begins_s: float
    ends_s: float
    slots: tuple[Slot, ...]


def sweeps(one: SimDevice) -> Iterator[Sweep]:
    """The runs of a device, as many as its fleet is to have; without end if nobody says."""
    at_s = one.joins_s + _FIRST_RUN_S + dice(*one.words, "first run").uniform(0, _FIRST_RUN_S)
    number = 0
    while one.options.runs is None or number < one.options.runs:
        found = _sweep(one, number, at_s)
        yield found
        at_s = found.ends_s + one.options.pause_s
        number += 1


def slowdown(one: SimDevice, engine: int, begins_s: float) -> float:
    """What the planted change leaves of an engine's speed, in a run that begins then."""
    change = one.regression
    return change.factor if change and engine == 1 and begins_s >= change.at_s else 1.0


def _sweep(one: SimDevice, number: int, begins_s: float) -> Sweep:
    run_id = uuid7(_unix_ms(one, begins_s), *one.words, "run", number)
    speeds = [one.speeds[engine] * slowdown(one, engine, begins_s) for engine in (0, 1)]
    slots: list[Slot] = []
    at_s = begins_s
    for session, order in enumerate(_ORDER, 1):
        for engine in order:
            at_s += one.of.engines[engine].ready_s
            for concurrency in _levels(one, run_id, session):
                slot = _slot(one.of, speeds[engine], Place(engine, session, concurrency), at_s)
                slots.append(slot)
                at_s = slot.ends_s
    return Sweep(number, run_id, begins_s, at_s, tuple(slots))


def _levels(one: SimDevice, run_id: str, session: int) -> list[int]:
    """Ascending for the scout, then shuffled."""
    levels = list(one.of.levels)
    if session > 1:
        dice(run_id, session).shuffle(levels)
    return levels


def _slot(of: HardwareClass, speed: float, place: Place, at_s: float) -> Slot:
    engine = of.engines[place.engine]
    if not of.fits(engine, place.concurrency):
        return Slot(place, at_s, at_s + _VERDICT_S, 0, 0.0)
    requests = max(_LEAST_REQUESTS, _PER_STREAM * place.concurrency)
    measured_s = requests / (engine.curve.requests_per_s(place.concurrency) * speed)
    return Slot(place, at_s, at_s + _WARM_UP_S + measured_s, requests, measured_s)


def _unix_ms(one: SimDevice, at_s: float) -> int:
    return one.options.start_ns // 1_000_000 + round(at_s * 1000)
