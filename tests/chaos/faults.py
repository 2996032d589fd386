"""What goes wrong when: drawn from a seed before anything begins."""

from __future__ import annotations

import random
from dataclasses import dataclass

FIRST_S, MEAN_GAP_S = 2.0, 4.0
AGENTS, COLLECTORS = ("agent-1", "agent-2", "agent-3"), ("collector-1", "collector-2")
LINKS = (
    *(f"{agent}:broker" for agent in AGENTS),
    *(f"{one}:{what}" for one in COLLECTORS for what in ("broker", "postgres", "influx")),
)
_KILLS = (*AGENTS, *COLLECTORS, *COLLECTORS, "broker", "broker", "postgres", "influx")
_WEIGHTS = {"kill": 8, "stop": 2, "hole": 4, "reset": 3, "slow": 3}
_LASTS_S = {"kill": (0.2, 5.0), "stop": (1.0, 8.0), "hole": (1.0, 10.0), "slow": (3.0, 12.0)}
_LAST_S = (2.0, 6.0)


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        what: ``kill`` (-9), ``stop`` (in good order), ``hole`` (nothing passes, nobody is told),
            ``reset`` (all connections end, and none is made meanwhile), ``slow``.
        whom: A process, or a link.
    """

    at_s: float
    lasts_s: float
    what: str
    whom: str

    @property
    def ends_s(self) -> float:
        return self.at_s + self.lasts_s


def schedule(seed: int, duration_s: float) -> list[Fault]:
    """Faults that all end by the end; no two at one time on one thing.

    At the end the records of all agents have to wait: the database is away, and meanwhile the
    broker and the collectors are killed with all that they hold.
    """
    dice = random.Random(seed)
    last_s = dice.uniform(*_LAST_S)
    away = Fault(duration_s - last_s, last_s, dice.choice(("kill", "stop")), "postgres")
    dead_s = dice.uniform(0.2, 0.8) * last_s
    found = [away]
    found += [Fault(duration_s - dead_s, dead_s, "kill", one) for one in ("broker", *COLLECTORS)]
    at_s = FIRST_S
    while at_s < duration_s:
        fault = _drawn(dice, at_s)
        free = not any(_meet(fault, one) for one in found)
        if free and fault.ends_s <= duration_s:
            found.append(fault)
        at_s += dice.expovariate(1 / MEAN_GAP_S)
    return sorted(found, key=lambda one: one.at_s)


def _meet(one: Fault, other: Fault) -> bool:
    """Whether two faults are on one thing, with less than a second in between."""
    apart = one.at_s > other.ends_s + 1.0 or other.at_s > one.ends_s + 1.0
    return one.whom == other.whom and not apart


def _drawn(dice: random.Random, at_s: float) -> Fault:
    what = dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    whom = {"kill": _KILLS, "stop": ("postgres", "influx")}.get(what, LINKS)
    low, high = _LASTS_S.get(what, (0.0, 1.0))
    return Fault(at_s, dice.uniform(low, high), what, dice.choice(whom))
