"""How the requests of a level were arranged, which is what its samples are read by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .tool_schema import Tool  # noqa: TC001 - a field's type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgesweep.records import Sample

WindowKind = Literal["steady", "open", "burst", "task", "phases"]
"""Over which time the rates of a level are taken.

``steady``: 95 % of the level in flight. ``open``: an open loop has no such time, so all of it
from the first arrival on. ``burst``: the cold bursts, joins included. ``task``: as ``steady``,
with figures for each task. ``phases``: while both loads ran.
"""

COLD, WARM, AGAIN = "cold", "warm", "again"
"""A burst whose opening was never seen; the same opening with other questions; the questions of
the first cold burst once more."""
JOIN = "join"
TASK = "task"


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What must be known of a workload to read its samples.

    Attributes:
        window: Over which time rates are taken.
        shared_tokens: The opening that the requests of a burst share.
        steps: Names of a task's serial steps, in order; a name may stand for several requests
            at once.
        tools: What every step's answer must call; empty where it need not.
        resident: Part of the load that is there first, with ``phases``.
        newcomer: Part that comes and goes meanwhile.
    """

    window: WindowKind = "steady"
    shared_tokens: int = 0
    steps: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    resident: str = ""
    newcomer: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """What a part of a level is: the name of its track, and ``Sample.part``.

    Attributes:
        number: Which burst or task, from 1.
        of: What it is a part of (``cold``, ``task`` ...).
        step: Which step of it; "" for the main one.
    """

    number: int
    of: str
    step: str = ""

    @property
    def name(self) -> str:
        """Such as ``cold/1`` or ``cold/1/join``."""
        return f"{self.of}/{self.number}" + (f"/{self.step}" if self.step else "")


def part_of(sample: Sample) -> Part | None:
    """The part that a sample belongs to; ``None`` if it is not numbered."""
    of, _, rest = sample.part.partition("/")
    number, _, step = rest.partition("/")
    return Part(int(number), of, step) if number.isdecimal() else None


def by_number(samples: Iterable[Sample], of: str) -> dict[int, list[tuple[str, Sample]]]:
    """The samples of each burst or task, with the step that each belongs to."""
    found: dict[int, list[tuple[str, Sample]]] = {}
    for sample in samples:
        part = part_of(sample)
        if part is not None and part.of == of:
            found.setdefault(part.number, []).append((part.step, sample))
    return found
