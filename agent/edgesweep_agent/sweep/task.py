"""One level to be measured, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import anyio

    from edgesweep.records import LevelResult, MemoryVerdict, Sample
    from edgesweep_agent.core.pace import Pace
    from edgesweep_agent.workloads.shape import Shape

    from .box import Box
    from .contender import Ready
    from .ledger import Ledger


@dataclass(frozen=True, slots=True)
class Task:
    """What to measure and where it belongs.

    Attributes:
        position: How many levels this visit has had, this one included.
        verdict: Why memory admits it, where that was reckoned.
        per_request_bytes: Memory of each additional simultaneous request, as reckoned.
        attributes: What the visit adds to the record: how it was soaked, for one.
    """

    ready: Ready
    shape: Shape
    concurrency: int
    session: int
    position: int
    verdict: MemoryVerdict | None
    per_request_bytes: float | None
    attributes: dict[str, str]
    ledger: Ledger
    box: Box
    seed: int
    stop: anyio.Event
    keep_text: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """A level's result with its samples, and what it took.

    Attributes:
        requests: That were answered, warm-up included; those under way when it was cut count by
            what was done of them.
        warmed_up: Of these, those of the warm-up.
        pace: How fast requests went, where it was cut and that is known.
    """

    level: LevelResult
    samples: tuple[Sample, ...]
    requests: float
    seconds: float
    warmed_up: int = 0
    pace: Pace | None = None
