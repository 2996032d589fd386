"""Results into files: the run as one JSON object, the samples as JSON lines.

The run's file is written anew after every level, by rename, so that whatever happens next a
whole file with every finished level is there. A stream gets the run once, at its end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgesweep.run_json import run_object
from edgesweep_agent.core.sample_json import sample_object
from edgesweep_common.outfile import drop, replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

    from edgesweep.records import LevelResult, Run, Sample

    from .recorder import Progress


STREAM = "standard output"


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

    @property
    def place(self) -> str:
        """Where the run is."""
        return str(self.path)

    def _write(self) -> None:
        if self._run is None:
            return
        text = _run_text(self._run, self.levels)
        try:
            with replacing(self.path) as file:
                file.write(text.encode())
        except OSError as error:
            # The sweep goes on: what it measures may still be wanted elsewhere.
            self.problem = f"{self.path} is not up to date: {error.strerror}"
        else:
            self.problem = ""


@dataclass(slots=True)
class RunStream:
    """Writes the run to a stream when the sweep has ended, with the levels that it had before."""

    out: TextIO
    levels: list[LevelResult] = field(default_factory=list)
    problem: str = ""
    _run: Run | None = None

    async def on_run(self, run: Run) -> None:
        """Take the snapshot."""
        self._run = run

    async def on_level(self, level: LevelResult, _samples: Sequence[Sample]) -> None:
        """Add the level."""
        self.levels.append(level)

    def on_progress(self, _progress: Progress) -> None:
        """Nothing to write."""

    @property
    def place(self) -> str:
        """Where the run is."""
        return STREAM

    def end(self) -> None:
        """Write the run as it stands; nothing if none has begun."""
        if self._run is not None:
            self.problem = _streamed(self.out, [_run_text(self._run, self.levels)])


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
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(_sample_lines(level, samples, self.keep_text))
        except OSError as error:
            self.problem = f"{self.path} lacks requests: {error.strerror}"

    def on_progress(self, _progress: Progress) -> None:
        """Nothing to write."""

    @property
    def place(self) -> str:
        """Where the samples are."""
        return str(self.path)


@dataclass(slots=True)
class SamplesStream:
    """Writes a line a request to a stream, level by level."""

    out: TextIO
    keep_text: bool
    problem: str = ""

    async def on_run(self, _run: Run) -> None:
        """A run has no line of its own."""

    async def on_level(self, level: LevelResult, samples: Sequence[Sample]) -> None:
        """Add the level's requests; a reader that has gone is not written to again."""
        if not self.problem:
            lines = _sample_lines(level, samples, self.keep_text)
            self.problem = _streamed(self.out, lines)

    def on_progress(self, _progress: Progress) -> None:
        """Nothing to write."""

    @property
    def place(self) -> str:
        """Where the samples are."""
        return STREAM


Output = RunFile | RunStream | SamplesFile | SamplesStream
"""What writes results where the user said."""


def _run_text(run: Run, levels: Sequence[LevelResult]) -> str:
    return json.dumps(run_object(run, levels), indent=2, allow_nan=False) + "\n"


def _sample_lines(level: LevelResult, samples: Sequence[Sample], keep_text: bool) -> Iterator[str]:
    for sample in samples:
        yield json.dumps(sample_object(level, sample, keep_text=keep_text), allow_nan=False) + "\n"


def _streamed(out: TextIO, texts: Iterable[str]) -> str:
    """Write at once; what went wrong, for people."""
    try:
        out.writelines(texts)
        out.flush()
    except OSError as error:
        drop(out)
        return f"{STREAM} lacks results: {error.strerror}"
    return ""
