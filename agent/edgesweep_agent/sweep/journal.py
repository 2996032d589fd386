"""What a run has finished, on the disk before the next level begins, so that it can go on.

A journal is one file a run: JSON lines, each with a record's kind and its wire bytes in base64.
Every line is forced to the disk. A torn last line is a level that had not been kept yet.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgesweep import codec
from edgesweep.envelope import WireError
from edgesweep.records import Kind, LevelResult, LevelStatus, Run, RunState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgesweep.records import Record, Sample

    from .recorder import Progress

KEPT = 20
"""Journals of so many ended runs are kept; older ones are removed when a run begins. One that
could go on, or is going on, is never removed."""
_LOST = "this run could not be resumed; --state FOLDER names another place"
_UNDONE = frozenset({"interrupted", "time_budget", "lower_level_failed", "not_ready"})
"""Reasons for which a level is measured again when its run goes on."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run that was broken off: its last snapshot, and the levels that need not be repeated."""

    run: Run
    finished: tuple[LevelResult, ...]
    attempts: int


@dataclass(slots=True)
class Journal:
    """Keeps one run in ``folder``."""

    folder: Path
    problem: str = ""
    _path: Path | None = field(default=None)

    async def on_run(self, run: Run) -> None:
        """A snapshot; the first one opens the file."""
        if self._path is None:
            self._path = self.folder / f"{run.run_id}.jsonl"
            self._begin()
        self._add(run)

    async def on_level(self, level: LevelResult, _samples: Sequence[Sample]) -> None:
        """A level, durable when this returns."""
        self._add(level)

    def on_progress(self, _progress: Progress) -> None:
        """Nothing to keep."""

    def _begin(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            ended = [path for path in sorted(self.folder.glob("*.jsonl")) if _has_ended(path)]
            for old in ended[:-KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            self.problem = f"{self.folder}: {error.strerror}: {_LOST}"

    def _add(self, record: Record) -> None:
        if self._path is None:
            return
        kind, payload = codec.encode(record)
        line = json.dumps({"kind": kind.value, "payload": base64.b64encode(payload).decode()})
        try:
            with self._path.open("a", encoding="ascii") as file:
                # Begins a line of its own, whatever a full disk or a power cut left before it.
                file.write(f"\n{line}\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror}: {_LOST}"


def unfinished(folder: Path, plan_json: str, device_id: str) -> Unfinished | None:
    """The newest run of this plan on this device, if it was broken off."""
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        records = _read(path)
        runs = [record for record in records if isinstance(record, Run)]
        if not runs or runs[0].plan_json != plan_json or runs[0].device.device_id != device_id:
            continue
        if _has_ended(path):
            return None
        starts = sum(run.state is RunState.RUNNING for run in runs)
        return _unfinished(runs[-1], [x for x in records if isinstance(x, LevelResult)], starts)
    return None


def _unfinished(run: Run, levels: list[LevelResult], starts: int) -> Unfinished:
    """The newest word on each level counts."""
    newest = {level.key[:-1]: level for level in levels}
    finished = tuple(level for level in newest.values() if not _is_undone(level))
    return Unfinished(run, finished, starts)


def _has_ended(path: Path) -> bool:
    runs = [record for record in _read(path) if isinstance(record, Run)]
    return bool(runs) and runs[-1].state in {RunState.COMPLETE, RunState.FAILED}


def _is_undone(level: LevelResult) -> bool:
    return level.status in {LevelStatus.SKIPPED, LevelStatus.FAILED} and level.reason in _UNDONE


def _read(path: Path) -> list[Record]:
    found: list[Record] = []
    for line in path.read_bytes().splitlines():
        try:
            entry = json.loads(line)
            found.append(codec.decode(Kind(entry["kind"]), base64.b64decode(entry["payload"])))
        except (ValueError, KeyError, TypeError, WireError):
            continue
    return found
