"""The table that grows while a sweep runs: a line a level, and what happens just now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from edgesweep.quantiles import FLOORS
from edgesweep.records import LevelStatus
from edgesweep_common.outfile import drop

from .ending import MEASURED
from .failures import failures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from edgesweep.records import LevelResult, Run, Sample
    from edgesweep_agent.sweep.recorder import Progress

LEAST = FLOORS[0.50]
"""Answers that a median needs."""
ABSENT = "–"  # noqa: RUF001 - an en dash is what a table has where nothing was measured
_STYLE = {
    LevelStatus.VALID: "green",
    LevelStatus.FLAGGED: "yellow",
    LevelStatus.SKIPPED: "dim",
    LevelStatus.FAILED: "red",
}
LEAST_WIDTH = 75
"""Columns of a terminal that the table's figures need beside a name; a narrower one gets lines."""
REFRESH_HZ = 2
"""Drawing takes processor time from the engine that is being measured."""
_COLUMNS = {
    "contender": 9,
    "level": 5,
    "ok": 5,
    "TTFT": 7,
    "TPOT": 7,
    "E2E": 7,
    "tok/s": 6,
    "req/s": 5,
    "status": 0,
}
"""What a line shows, medians of the times, and how wide it is at least where lines come one by
one: as wide as its figures are. The status, which may be long, is last and moves nothing."""
_TEXT_COLUMNS = frozenset({"contender", "status"})


@dataclass(slots=True)
class LiveTable:
    """Draws on a terminal; into a pipe or a log, or on a narrow one, each level's line comes once.

    Attributes:
        kept: Levels of an earlier attempt, which are shown first and marked.
        names: Contenders' names as far as the plan has them: how wide their column must be.
    """

    console: Console
    kept: Sequence[LevelResult] = ()
    names: Sequence[str] = ()
    _levels: list[LevelResult] = field(default_factory=list)
    _progress: Progress | None = None
    _live: Live | None = None
    _told: set[str] = field(default_factory=set)
    _name_width: int = 0
    _failures: list[str] = field(default_factory=list)

    @property
    def levels(self) -> tuple[LevelResult, ...]:
        """What it was told of, and had."""
        return (*self.kept, *self._levels)

    @property
    def failures(self) -> tuple[str, ...]:
        """What failed at which level, with the server's own words, a line each."""
        return tuple(self._failures)

    def __enter__(self) -> Self:
        """Begin to draw."""
        console = self.console
        if console.is_terminal and not console.is_dumb_terminal and console.width >= LEAST_WIDTH:
            self._live = Live(
                console=self.console, get_renderable=self._draw, refresh_per_second=REFRESH_HZ
            )
            self._live.start()
        else:
            for level in self.kept:
                self._add(row(level, kept=True), level.contender.name)
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
        self._failures.extend(failures(level, samples))
        self._levels.append(level)
        if self._live is None:
            self._add(row(level), level.contender.name)

    def on_progress(self, progress: Progress) -> None:
        """Show what happens just now; where nothing is drawn, waits and warnings are told once."""
        self._progress = progress
        if self._live is not None:
            return
        if progress.concurrency is None:
            self._tell_once(_now(progress))
        elif progress.warning:
            # Its figures change as the level goes on: the first word on it is enough.
            self._tell_once(f"{_place(progress)}: {progress.warning}", _place(progress))

    def _draw(self) -> Group:
        table = [self._table()] if self._levels or self.kept else []
        now = [] if self._progress is None else [Text(_now(self._progress) + _for(self._progress))]
        return Group(*table, *now)

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
        for name, width in _COLUMNS.items():
            if name in _TEXT_COLUMNS:
                table.add_column(name, overflow="fold")
            else:
                table.add_column(name, justify="right", no_wrap=True, min_width=width - 1)
        for level in self.kept:
            table.add_row(*row(level, kept=True))
        for level in self._levels:
            table.add_row(*row(level))
        return table

    def _tell_once(self, text: str, about: str = "") -> None:
        if (about or text) not in self._told:
            self._told.add(about or text)
            self._say(text)

    def _add(self, cells: Sequence[str | Text], name: str) -> None:
        """A line into a pipe, under the head if it is the first one."""
        if not self._name_width:
            names = (name, *self.names, *(level.contender.name for level in self.kept))
            self._name_width = max(_COLUMNS["contender"], *map(len, names))
            self._line(tuple(_COLUMNS))
        self._line(tuple(str(cell) for cell in cells))

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
            drop(self.console.file)


def row(level: LevelResult, *, kept: bool = False) -> tuple[str | Text, ...]:
    """The cells of a level; what was not measured, or not often enough, is a dash.

    Args:
        level: The level.
        kept: It was measured before the sweep was broken off.
    """
    status = level.status.value + (f": {level.reason}" if level.reason else "")
    if level.flags:
        status += f" ({', '.join(flag.name for flag in level.flags)})"
    status += _why_dashes(level)
    if "time_budget" in level.attributes:
        status += f", {level.attributes['time_budget']}"
    if kept:
        status += ", kept"
    total = level.n_ok + level.n_failed
    return (
        level.contender.name,
        str(level.concurrency),
        f"{level.n_ok}/{total}" if total else ABSENT,
        _time(level, "ttft_s"),
        _time(level, "tpot_s"),
        _time(level, "e2e_s"),
        _rate(level, "output_tokens_per_s"),
        _rate(level, "requests_per_s"),
        Text(status, style=_STYLE[level.status]),
    )


def _why_dashes(level: LevelResult) -> str:
    """Why a level that was measured has no rates, or no times."""
    if not level.n_ok or level.status not in MEASURED:
        return ""
    if "output_tokens_per_s" not in level.values:
        if level.n_ok + level.n_failed < level.concurrency:
            enough = max(LEAST, 3 * level.concurrency)
            return f", fewer requests than the level: no rates (--requests {enough})"
        return ", never the whole level in flight: no rates"
    return f", fewer than {LEAST} answers: no medians" if level.n_ok < LEAST else ""


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
    warning = f"; {progress.warning}" if progress.warning else ""
    return (
        f"{_place(progress)}: {progress.text}, {progress.done} of {progress.planned} requests"
        + warning
    )


def _for(progress: Progress) -> str:
    """How long it has waited: only where the line is drawn again and again."""
    return "" if progress.waited_s is None else f" ({progress.waited_s:.0f} s)"


def _place(progress: Progress) -> str:
    return f"{progress.contender}: level {progress.concurrency}"
