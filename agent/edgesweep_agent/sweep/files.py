"""Results into files: the run as one JSON object, the samples as JSON lines.

The run's file is written anew after every level, by rename, so that whatever happens next a
whole file with every finished level is there.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgesweep.run_json import run_object
from edgesweep_agent.core.sample_json import sample_object

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgesweep.records import LevelResult, Run, Sample

    from .recorder import Progress


@dataclass(slots=True)
class RunFile:
    """Keeps ``path`` at the run as it stands, with the levels that it had before if any."""

    path: Path
    levels: list[LevelResult] = field(default_factory=list)
    problem: str = ""
    _run: Run | None = None

    async def on_run(self, run: Run) -> None:
        """Take the snapshot."""
        self._run = run
        self._write()

    async def on_level(self, level: LevelResult, _samples: Sequence[Sample]) -> None:
        """Add the level."""
        self.levels.append(level)
        self._write()

    def on_progress(self, _progress: Progress) -> None:
        """Nothing to write."""

    def _write(self) -> None:
        if self._run is None:
            return
        text = json.dumps(run_object(self._run, self.levels), indent=2, allow_nan=False)
        beside = self.path.with_name(self.path.name + ".tmp")
        try:
            beside.write_text(text + "\n", encoding="utf-8")
            beside.replace(self.path)
        except OSError as error:
            # The sweep goes on: what it measures may still be wanted elsewhere.
            with suppress(OSError):
                beside.unlink()
            self.problem = f"{self.path} is not up to date: {error.strerror}"
        else:
            self.problem = ""


@dataclass(slots=True)
class SamplesFile:
    """Adds a line a request to ``path``, level by level; a run that goes on keeps its lines."""

    path: Path
    keep_text: bool
    goes_on: bool = False
    problem: str = ""

    def __post_init__(self) -> None:
        """Begin an empty file: a run's samples are not mixed with another's."""
        if not self.goes_on:
            self.path.write_text("", encoding="utf-8")

    async def on_run(self, _run: Run) -> None:
        """A run has no line of its own."""

    async def on_level(self, level: LevelResult, samples: Sequence[Sample]) -> None:
        """Add the level's requests."""
        lines = (
            json.dumps(sample_object(level, sample, keep_text=self.keep_text), allow_nan=False)
            for sample in samples
        )
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in lines)
        except OSError as error:
            self.problem = f"{self.path} lacks requests: {error.strerror}"

    def on_progress(self, _progress: Progress) -> None:
        """Nothing to write."""
