"""The table that grows while a sweep runs: a line a level, and what happens just now."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from edgesweep.records import LevelStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from edgesweep.records import LevelResult, Run, Sample
    from edgesweep_agent.sweep.recorder import Progress

ABSENT = "–"  # noqa: RUF001 - an en dash is what a table has where nothing was measured
_STYLE = {
    LevelStatus.VALID: "green",
    LevelStatus.FLAGGED: "yellow",
    LevelStatus.SKIPPED: "dim",
    LevelStatus.FAILED: "red",
}
REFRESH_HZ = 2
"""Drawing takes processor time from the engine that is being measured."""
_COLUMNS = {
    "contender": 22,
    "level": 5,
    "status": 9,
    "ok": 7,
    "TTFT": 7,
    "TPOT": 7,
    "E2E": 7,
    "tok/s": 6,
    "req/s": 6,
}
"""What a line shows, medians of the times, and how wide it is where nothing adapts."""
_TEXT_COLUMNS = frozenset({"contender", "status"})


@dataclass(slots=True)
class LiveTable:
    """Draws on a terminal; into a pipe or a log it writes each level's line once."""

    console: Console
    _levels: list[LevelResult] = field(default_factory=list)
    _progress: Progress | None = None
    _live: Live | None = None
    _told: str = ""
    _name_width: int = 0
    _failures: list[str] = field(default_factory=list)

    @property
    def failures(self) -> tuple[str, ...]:
        """What failed at which level, with the server's own words, a line each."""
        return tuple(self._failures)

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self.console.is_terminal:
            self._live = Live(
                console=self.console, get_renderable=self._draw, refresh_per_second=REFRESH_HZ
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the finished table on the screen."""
        self._progress = None
        if self._live is not None:
            self._live.stop()

    async def on_run(self, _run: Run) -> None:
        """The table shows levels."""

    async def on_level(self, level: LevelResult, samples: Sequence[Sample]) -> None:
        """Add a line."""
        self._failures.extend(_failure(level, samples))
        if self._live is None and not self._levels:
            self._name_width = max(_COLUMNS["contender"], len(level.contender.name))
            self._line(tuple(_COLUMNS))
        self._levels.append(level)
        if self._live is None:
            self._line(tuple(str(cell) for cell in row(level)))

    def on_progress(self, progress: Progress) -> None:
        """Show what happens just now; where nothing is drawn, what is waited for is told once."""
        self._progress = progress
        if self._live is None and progress.concurrency is None and progress.text != self._told:
            self._told = progress.text
            self._say(_now(progress))

    def _draw(self) -> Group:
        table = [self._table()] if self._levels else []
        return Group(*table, *([Text(_now(self._progress))] if self._progress else []))

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
        for name, width in _COLUMNS.items():
            if name in _TEXT_COLUMNS:
                table.add_column(name, overflow="fold")
            else:
                table.add_column(name, justify="right", no_wrap=True, min_width=width - 1)
        for level in self._levels:
            table.add_row(*row(level))
        return table

    def _line(self, cells: tuple[str, ...]) -> None:
        widths = _COLUMNS | {"contender": self._name_width}
        padded = (
            cell.ljust(width) if name in _TEXT_COLUMNS else cell.rjust(width)
            for (name, width), cell in zip(widths.items(), cells, strict=True)
        )
        self._say(" ".join(padded).rstrip())

    def _say(self, text: str) -> None:
        """A reader that has gone, or a full disk, costs the table and not the sweep."""
        try:
            self.console.out(text, highlight=False)
        except (OSError, SystemExit):  # rich ends the program where a pipe is closed
            self.console.quiet = True
            with Path(os.devnull).open("w") as nowhere:
                # What is left in its buffer would fail once more when the program ends.
                os.dup2(nowhere.fileno(), self.console.file.fileno())


def _failure(level: LevelResult, samples: Sequence[Sample]) -> list[str]:
    """The commonest failure of a level in one line; none if nothing failed."""
    if not level.failed_by:
        return []
    reason, count = max(level.failed_by.items(), key=lambda item: item[1])
    details = (sample.detail for sample in samples if sample.reason == reason and sample.detail)
    said = f": {detail}" if (detail := next(details, "")) else ""
    total = level.n_ok + level.n_failed
    where = f"{level.contender.name}, level {level.concurrency}"
    return [f"{where}: {count} of {total} requests failed, {reason}{said}"]


def row(level: LevelResult) -> tuple[str | Text, ...]:
    """The cells of a level; what was not measured, or not often enough, is a dash."""
    status = level.status.value + (f": {level.reason}" if level.reason else "")
    if level.flags:
        status += f" ({', '.join(flag.name for flag in level.flags)})"
    total = level.n_ok + level.n_failed
    return (
        level.contender.name,
        str(level.concurrency),
        Text(status, style=_STYLE[level.status]),
        f"{level.n_ok}/{total}" if total else ABSENT,
        _time(level, "ttft_s"),
        _time(level, "tpot_s"),
        _time(level, "e2e_s"),
        _rate(level, "output_tokens_per_s"),
        _rate(level, "requests_per_s"),
    )


def _time(level: LevelResult, metric: str) -> str:
    found = level.distributions.get(metric)
    if found is None or found.p50 is None:
        return ABSENT
    return f"{found.p50 * 1000:.0f} ms" if found.p50 < 10 else f"{found.p50:.1f} s"


def _rate(level: LevelResult, metric: str) -> str:
    value = level.values.get(metric)
    return ABSENT if value is None else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _now(progress: Progress) -> str:
    if progress.concurrency is None:
        return f"{progress.contender}: {progress.text}"
    return (
        f"{progress.contender}: level {progress.concurrency}: {progress.text}, "
        f"{progress.done} of {progress.planned} requests"
    )
