"""What an engine's memory limit makes of a verdict reached below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from edgesweep_collector.core.labels import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep_collector.core.problem import Limit, Problem, Side


@dataclass(frozen=True, slots=True)
class Capacity:
    """The engine that memory stops first, in (last_ok, first_failed]; "both" if none is first."""

    limited: Side | Literal["both"]
    last_ok: int
    first_failed: int


# What was found up to the limit of engine X, and what it becomes; Y goes on alone beyond it.
# A verdict that is not listed stands: its winner is Y already, or there is none to lose.
_BEYOND: Final[Mapping[tuple[Kind, str], Kind]] = {
    # verdict up to the limit       first leader
    (Kind.DOMINATES,                "X"): Kind.CAPACITY_CROSSOVER,
    (Kind.TIE_THEN,                 "X"): Kind.CAPACITY_CROSSOVER,
    (Kind.UNRESOLVED_THEN,          "X"): Kind.CAPACITY_CROSSOVER,
    (Kind.THEN_TIE,                 "X"): Kind.CAPACITY_CROSSOVER,
    (Kind.THEN_UNRESOLVED,          "X"): Kind.CAPACITY_CROSSOVER,
    (Kind.CROSSOVER,                "Y"): Kind.MULTIPLE_CROSSINGS,
    (Kind.TIE,                      "-"): Kind.TIE_BY_CAPACITY,
    (Kind.INCONCLUSIVE,             "-"): Kind.INCONCLUSIVE_BY_CAPACITY,
}  # fmt: skip


def capacity_of(problem: Problem) -> Capacity | None:
    """Which engine memory stops first, or None if neither is limited.

    An engine is first only if the other ran at the level where it failed.
    """
    a, b = problem.limit_a, problem.limit_b
    if a is None or b is None:
        return Capacity("A", *_ends(a)) if a else Capacity("B", *_ends(b)) if b else None
    if a.first_failed <= b.last_ok:
        return Capacity("A", *_ends(a))
    if b.first_failed <= a.last_ok:
        return Capacity("B", *_ends(b))
    return Capacity("both", min(a.last_ok, b.last_ok), max(a.first_failed, b.first_failed))


def beyond_capacity(verdict: Verdict, capacity: Capacity | None) -> Verdict:
    """The verdict over the whole range, given the one reached where both engines run."""
    if capacity is None or capacity.limited == "both":
        return verdict
    limited = capacity.limited
    leader = "-" if verdict.x is None else "X" if verdict.x == limited else "Y"
    kind = _BEYOND.get((verdict.kind, leader))
    if kind is None:
        return verdict
    return Verdict(kind, None if kind is Kind.MULTIPLE_CROSSINGS else limited)


def _ends(limit: Limit) -> tuple[int, int]:
    return limit.last_ok, limit.first_failed
