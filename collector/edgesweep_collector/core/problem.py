"""What the crossover estimator is asked: two engines, their values per level, and the margin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Side: TypeAlias = Literal["A", "B"]
UnitKind: TypeAlias = Literal["device", "session"]

# Concurrency -> the repeats measured there. None is a level that was scheduled and failed;
# a level that was never scheduled is simply not a key.
Curve: TypeAlias = Mapping[int, "tuple[float, ...] | None"]

DEFAULT_MARGIN = 0.05


def other(side: Side) -> Side:
    """The contender that ``side`` is compared with."""
    return "B" if side == "A" else "A"


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of repetition, a device or a session of one, and what each engine did on it.

    Values are in the metric's own unit and must be above zero to count; an empty curve means
    that the engine has no result on this unit.
    """

    name: str
    a: Curve
    b: Curve


@dataclass(frozen=True, slots=True)
class Limit:
    """Where an engine stops for want of memory: somewhere in (last_ok, first_failed].

    Both are concurrencies; ``last_ok`` is 0 for an engine that cannot serve even one request.
    For a class of devices, the level that most of its units can run.
    """

    last_ok: int
    first_failed: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One comparison of engine A with engine B on one metric, within one comparison cell.

    ``margin`` is the relative difference below which the two count as equal (0.05 is 5 %).
    ``unit_kind`` says whether ``units`` are devices of one hardware class or sessions (engine
    starts) of a single device.
    """

    metric: str
    higher_is_better: bool
    units: tuple[Unit, ...]
    engine_a: str = "A"
    engine_b: str = "B"
    margin: float = DEFAULT_MARGIN
    unit_kind: UnitKind = "device"
    limit_a: Limit | None = None
    limit_b: Limit | None = None
    id: str | None = None
    title: str | None = None

    def engine(self, side: Side) -> str:
        """The engine's name as the buyer knows it."""
        return self.engine_a if side == "A" else self.engine_b
