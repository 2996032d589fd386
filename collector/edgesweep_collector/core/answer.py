"""What the crossover estimator answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep_collector.core.capacity import Capacity
    from edgesweep_collector.core.flags import Flag
    from edgesweep_collector.core.interval import Interval
    from edgesweep_collector.core.labels import Verdict
    from edgesweep_collector.core.roots import Crossing


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures that belong to a verdict; None where the verdict has no such figure.

    All but the ratios are concurrencies. ``crossover`` is c*; ``tie_band`` where the lead is
    within the margin around it (an end is None if a failed level hides it); ``bracket`` the levels
    next to c* and ``proven_between`` the nearest levels proven for each side; ``ci95`` the 95 %
    interval with the curvature guard and ``ci95_plain`` without. ``leads_from`` and
    ``leads_until`` are where a single leader's lead passes the margin next to a tie, ``bound``
    the level at which it is first (or last) proven next to something unresolved. ``lead_ratio`` is
    the smallest and largest lead over the proven levels (1.2 is 20 % better); ``excluded`` the
    advantage of A and of B that the intervals rule out at every level (0.1 is 10 %).
    """

    crossover: float | None = None
    tie_band: tuple[float | None, float | None] | None = None
    bracket: tuple[int, int] | None = None
    proven_between: tuple[int, int] | None = None
    ci95: Interval | None = None
    ci95_plain: Interval | None = None
    leads_from: float | None = None
    leads_until: float | None = None
    bound: int | None = None
    lead_ratio: tuple[float, float] | None = None
    excluded: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict with its evidence.

    ``levels``, ``labels`` (one letter each), ``log_ratio`` (above zero where B is better) and
    ``half_width`` (of its 95 % interval, None without repeats) run over the levels at which both
    engines are known. ``units`` counts the devices or sessions used, ``set_aside`` names the
    others; ``unit_crossovers`` gives each used unit's own crossing, None unless it has exactly
    one. ``failed_a`` and ``failed_b`` are levels that failed on at least one unit. ``reason``
    says what is missing or contradictory.
    """

    verdict: Verdict
    figures: Figures = Figures()
    levels: tuple[int, ...] = ()
    labels: str = ""
    log_ratio: tuple[float, ...] = ()
    half_width: tuple[float, ...] | None = None
    crossings: tuple[Crossing, ...] = ()
    capacity: Capacity | None = None
    capacity_crossover: tuple[int, int] | None = None
    units: int = 0
    set_aside: tuple[str, ...] = ()
    unit_crossovers: tuple[tuple[str, float | None], ...] = ()
    failed_a: tuple[int, ...] = ()
    failed_b: tuple[int, ...] = ()
    dropped: int = 0
    flags: tuple[Flag, ...] = ()
    reason: str | None = None

    @property
    def range(self) -> tuple[int, int] | None:
        """The lowest and highest level at which both engines are known."""
        return (self.levels[0], self.levels[-1]) if self.levels else None

    def as_json(self) -> dict[str, object]:
        """The answer as JSON values only; absent figures are None, and nothing is NaN."""
        figures, interval = self.figures, self.figures.ci95
        return {
            "verdict": self.verdict.name,
            "crossover": figures.crossover,
            "ci95": _ends(interval),
            "ci95_plain": _ends(figures.ci95_plain),
            "ci_open": list(interval.open) if interval else [],
            "tie_band": _list(figures.tie_band),
            "bracket": _list(figures.bracket),
            "proven_between": _list(figures.proven_between),
            "crossings": [[c.concurrency, c.direction] for c in self.crossings],
            "crossing_brackets": [list(c.bracket) for c in self.crossings],
            "leads_from": figures.leads_from,
            "leads_until": figures.leads_until,
            "bound": figures.bound,
            "lead_ratio": _list(figures.lead_ratio),
            "excluded": _list(figures.excluded),
            "levels": list(self.levels),
            "labels": self.labels,
            "log_ratio": list(self.log_ratio),
            "half_width": _list(self.half_width),
            "range": _list(self.range),
            "failed_levels": {"A": list(self.failed_a), "B": list(self.failed_b)},
            "capacity": _capacity(self.capacity),
            "capacity_crossover": _list(self.capacity_crossover),
            "units": self.units,
            "set_aside": list(self.set_aside),
            "unit_crossovers": dict(self.unit_crossovers),
            "dropped": self.dropped,
            "flags": [flag.value for flag in self.flags],
            "reason": self.reason,
        }


def _list(values: Sequence[float | None] | None) -> list[float | None] | None:
    return None if values is None else list(values)


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _capacity(capacity: Capacity | None) -> dict[str, object] | None:
    if capacity is None:
        return None
    return {
        "limited": capacity.limited,
        "last_ok": capacity.last_ok,
        "first_failed": capacity.first_failed,
    }
