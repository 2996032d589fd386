"""What each level proves, and what the levels together are called."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from edgesweep_collector.core.line import ZERO, Line
from edgesweep_collector.core.problem import Side, other

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Label: TypeAlias = Literal["A", "B", "T", "U"]


class Kind(str, Enum):
    """What a comparison came to; X stands for one engine and Y for the other."""

    CROSSOVER = "CROSSOVER_{X}_TO_{Y}"
    DOMINATES = "{X}_DOMINATES"
    TIE_THEN = "TIE_THEN_{X}"
    UNRESOLVED_THEN = "UNRESOLVED_THEN_{X}"
    THEN_TIE = "{X}_THEN_TIE"
    THEN_UNRESOLVED = "{X}_THEN_UNRESOLVED"
    TIE = "TIE"
    INCONCLUSIVE = "INCONCLUSIVE"
    MULTIPLE_CROSSINGS = "MULTIPLE_CROSSINGS"
    NO_OVERLAP = "NO_OVERLAP"
    INSUFFICIENT_DATA = "INSUFFICIENT_DATA"
    CAPACITY_CROSSOVER = "CAPACITY_CROSSOVER_{X}_TO_{Y}"
    TIE_BY_CAPACITY = "TIE_THEN_{Y}_BY_CAPACITY"
    INCONCLUSIVE_BY_CAPACITY = "INCONCLUSIVE_THEN_{Y}_BY_CAPACITY"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A kind of answer, and the engine that its X stands for (None where it names no engine).

    For the kinds of capacity X is the engine that memory stops.
    """

    kind: Kind
    x: Side | None = None

    @property
    def name(self) -> str:
        """The verdict as one word, such as ``CROSSOVER_A_TO_B``."""
        return self.kind.value.format(X=self.x, Y=other(self.x) if self.x else None)


_SIDES: Final[Mapping[str, Side]] = {"A": "A", "B": "B"}

# The labels of the levels in order, collapsed to the proven leaders without repetition ("core",
# X leads first), with what stands before and after them: "T" ties only, "U" something unresolved,
# "" nothing, "*" any of these. The first row that fits is the verdict.
_VERDICTS: Final = (
    # core  before  after   verdict
    ("XY",  "*",    "*",    Kind.CROSSOVER),
    ("X",   "",     "",     Kind.DOMINATES),
    ("X",   "T",    "*",    Kind.TIE_THEN),
    ("X",   "U",    "*",    Kind.UNRESOLVED_THEN),
    ("X",   "",     "T",    Kind.THEN_TIE),
    ("X",   "",     "U",    Kind.THEN_UNRESOLVED),
    ("",    "T",    "*",    Kind.TIE),
    ("",    "U",    "*",    Kind.INCONCLUSIVE),
)  # fmt: skip


def level_labels(line: Line, margin: float) -> tuple[Label, ...]:
    """One label per level: A or B proven ahead by the margin, T tied within it, U unresolved.

    ``margin`` is relative (0.05). A lead is proven where the 95 % interval of the log ratio
    excludes zero and its mean is at least ``ln(1 + margin)``; a tie where the whole interval lies
    inside the margin. Without any repeat the point alone is held against the margin.
    """
    limit = math.log1p(margin)
    halves = line.half if line.half is not None else [0.0] * line.x.size
    return tuple(_label(float(m), float(h), limit) for m, h in zip(line.mean, halves, strict=True))


def _label(mean: float, half: float, limit: float) -> Label:
    if abs(mean) >= limit - ZERO and abs(mean) > half:
        return "B" if mean > 0.0 else "A"
    return "T" if abs(mean) + half < limit - ZERO else "U"


def verdict_of(labels: tuple[Label, ...]) -> Verdict:
    """The verdict that the labels of two or more levels, in order of concurrency, add up to."""
    leaders = core(labels)
    if len(leaders) > 2:
        return Verdict(Kind.MULTIPLE_CROSSINGS)
    before, after = _around(labels)
    shape = "XY"[: len(leaders)]
    kind = next(
        kind
        for row_core, row_before, row_after, kind in _VERDICTS
        if row_core == shape and row_before in ("*", before) and row_after in ("*", after)
    )
    return Verdict(kind, leaders[0] if leaders else None)


def core(labels: Iterable[str]) -> tuple[Side, ...]:
    """The proven leaders in order, without repetition."""
    leaders = (_SIDES[label] for label in labels if label in _SIDES)
    return tuple(leader for leader, _ in groupby(leaders))


def point_leaders(line: Line, margin: float) -> tuple[Side, ...]:
    """The leaders in order that the point estimates alone suggest, beyond the margin."""
    bare = Line(line.x, line.mean, line.joined, None, None)
    return core(level_labels(bare, margin))


def inside(labels: str) -> str:
    """What stands between levels of a single proven leader: "" nothing, "T" ties, or "U"."""
    text = labels.strip("TU")
    return _mix(text) if len(core(labels)) == 1 else ""


def _around(labels: tuple[Label, ...]) -> tuple[str, str]:
    text = "".join(labels)
    tail = text.lstrip("TU")
    return _mix(text[: len(text) - len(tail)]), _mix(tail[len(tail.rstrip("TU")) :])


def _mix(text: str) -> str:
    return "U" if "U" in text else "T" if "T" in text else ""
