"""The level table of a report: every figure, or a dash that says why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgesweep.quantiles import FLOORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep_collector.report.facts import LevelRow, ReportFacts

# The median needs this many successful requests to be more than an anecdote.
MIN_FOR_MEDIAN: Final = FLOORS[0.50]

_MEDIANS: Final = ("ttft_s", "tpot_s", "e2e_s")
_RATES: Final = ("output_tokens_per_s", "output_tokens_per_s_gross", "requests_per_s")


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure as text; if it is absent, ``why`` says so and ``note`` is its footnote letter."""

    text: str
    why: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """One level of one contender, ready to print."""

    row: LevelRow
    contender: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by concurrency, and the footnotes their dashes refer to, as (letter, reason)."""

    rows: tuple[TableRow, ...]
    notes: tuple[tuple[str, str], ...]


def table_of(facts: ReportFacts) -> Table:
    """The level rows of a report with the two contenders of a level next to each other."""
    rows = sorted(facts.levels, key=lambda row: (row.concurrency, row.side))
    reasons = [why for row in rows for name in (*_MEDIANS, *_RATES) if (why := _why(row, name))]
    notes = {why: _letter(k) for k, why in enumerate(dict.fromkeys(reasons))}
    printed = (TableRow(row, facts.contender(row.side), _cells(row, notes)) for row in rows)
    return Table(tuple(printed), tuple((letter, why) for why, letter in notes.items()))


def left_out(facts: ReportFacts) -> tuple[LevelRow, ...]:
    """The levels that no curve uses, in order of concurrency."""
    rows: Sequence[LevelRow] = [row for row in facts.levels if row.status != "valid"]
    return tuple(sorted(rows, key=lambda row: (row.concurrency, row.side)))


def _cells(row: LevelRow, notes: dict[str, str]) -> tuple[Cell, ...]:
    return tuple(_cell(row, name, notes) for name in (*_MEDIANS, *_RATES))


def _cell(row: LevelRow, name: str, notes: dict[str, str]) -> Cell:
    why = _why(row, name)
    if why is not None:
        return Cell("\N{EN DASH}", why, notes[why])
    return Cell(significant(getattr(row, name)))


def _why(row: LevelRow, name: str) -> str | None:
    """Why a figure is absent, None if it is there."""
    if getattr(row, name) is not None:
        return None
    if row.status in ("skipped", "failed"):
        return f"level {row.status}" + (f": {row.reason}" if row.reason else "")
    if name in _MEDIANS and row.n_ok < MIN_FOR_MEDIAN:
        return f"a median needs {MIN_FOR_MEDIAN} successful requests"
    return "not measured"


def significant(value: float) -> str:
    """Three significant digits without an exponent, as far as that is readable."""
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{float(f'{value:.3g}'):,.10g}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def _letter(k: int) -> str:
    return chr(ord("a") + k) if k < 26 else f"a{k - 25}"
