"""Who is told what a sweep measures, as it measures it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep.records import LevelResult, Run, Sample


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a level stands; ``concurrency`` is ``None`` while the engine starts.

    Attributes:
        warning: What will keep it from its end, as far as that can be told; or "".
        waited_s: For how long it has been waited, where it is.
    """

    contender: str
    text: str
    concurrency: int | None = None
    done: int = 0
    planned: int = 0
    warning: str = ""
    waited_s: float | None = None


class Recorder(Protocol):
    """Takes results as they come. A result that was recorded is safe with its recorder."""

    async def on_run(self, run: Run) -> None:
        """A new snapshot of the run: at its start and at its end."""

    async def on_level(self, level: LevelResult, samples: Sequence[Sample]) -> None:
        """A level has ended, or was skipped."""

    def on_progress(self, progress: Progress) -> None:
        """Something moved; called often, must be cheap."""


class Keeper(Recorder, Protocol):
    """A recorder that keeps results somewhere, and may fail to.

    Attributes:
        problem: What is not kept, for people; or "".
    """

    problem: str


@dataclass(frozen=True, slots=True)
class Recorders:
    """Several recorders as one, told in their order."""

    all: tuple[Recorder, ...]

    async def on_run(self, run: Run) -> None:
        """Tell each."""
        for recorder in self.all:
            await recorder.on_run(run)

    async def on_level(self, level: LevelResult, samples: Sequence[Sample]) -> None:
        """Tell each."""
        for recorder in self.all:
            await recorder.on_level(level, samples)

    def on_progress(self, progress: Progress) -> None:
        """Tell each."""
        for recorder in self.all:
            recorder.on_progress(progress)
