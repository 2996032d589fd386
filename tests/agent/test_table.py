"""The table of a sweep, where it goes into a pipe: stable, a line a level, never wrapped."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

import wire
from edgesweep.records import Flag, LevelStatus
from edgesweep_agent.cli.table import ABSENT, LiveTable
from edgesweep_agent.sweep.recorder import Progress

pytestmark = pytest.mark.anyio


def level(concurrency, name="a", **fields):
    found = wire.level(concurrency, flags=())
    return replace(found, contender=replace(found.contender, name=name), **fields)


async def piped(levels, *, width=80, **options):
    out = io.StringIO()
    with LiveTable(Console(file=out, width=width), **options) as table:
        for one in levels:
            await table.on_level(one, ())
    return out.getvalue().splitlines()


async def test_a_long_status_stays_on_its_line_and_moves_no_figure():
    flags = tuple(Flag(name) for name in ("cache_contaminated", "foreign_load", "throttled"))
    lines = await piped([level(1), level(2, status=LevelStatus.FLAGGED, flags=flags)], width=40)
    assert len(lines) == 3
    assert lines[2].endswith("flagged (cache_contaminated, foreign_load, throttled)")
    at = lines[0].index("status")
    assert lines[1][at - 1 :].startswith(" valid")
    assert lines[2][at - 1 :].startswith(" flagged")
    assert not set("─│┏┃╇").intersection("".join(lines))


async def test_plain_lines_of_ordinary_levels_go_into_80_columns():
    lines = await piped([level(64, "SmolLM2-135M Q4_1")])
    assert max(map(len, lines)) <= 80


async def test_names_that_come_later_are_as_wide_as_the_column():
    names = ["short", "a contender with quite a long name"]
    lines = await piped([level(1, name) for name in names], names=names)
    ends = [line.index(f" {ABSENT}") for line in lines[1:]]
    assert lines[0].index("level") + len("level") == lines[1].index(" 1 ") + 2
    assert ends[0] == ends[1]


@pytest.mark.parametrize("terminal", [False, True])
async def test_levels_of_before_the_interruption_are_shown_and_marked(terminal):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, color_system=None)
    with LiveTable(console, kept=[level(1)]) as table:
        await table.on_level(level(2), ())
    rows = [line for line in out.getvalue().splitlines() if line.lstrip().startswith("a ")]
    one, two = rows[-2:]
    assert (one.split()[1], one.split()[-1]) == ("1", "kept")
    assert (two.split()[1], two.split()[-1]) == ("2", "valid")


async def test_a_warning_of_a_level_is_told_once():
    out = io.StringIO()
    with LiveTable(Console(file=out, width=80)) as table:
        for done in (3, 4):
            warning = f"needs about {90 - done} s more: --budget 3m"
            table.on_progress(Progress("a", "measuring", 8, done, 24, warning))
    assert out.getvalue() == "a: level 8: needs about 87 s more: --budget 3m\n"


async def test_a_level_that_the_budget_left_out_says_how_much_longer_it_needs():
    said = {"time_budget": "needs about 3 min more: --budget 6m"}
    lines = await piped(
        [level(8, status=LevelStatus.SKIPPED, reason="time_budget", attributes=said)]
    )
    assert lines[1].endswith("skipped: time_budget, needs about 3 min more: --budget 6m")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"n_ok": 1, "values": {}},
            "valid, fewer requests than the level: no rates (--requests 12)",
        ),
        ({"n_ok": 20, "values": {}}, "valid, never the whole level in flight: no rates"),
        ({"n_ok": 10}, "valid, fewer than 11 answers: no medians"),
        ({"n_ok": 11}, "valid"),
    ],
)
async def test_dashes_of_a_measured_level_are_explained(fields, says):
    lines = await piped([level(4, **fields)])
    assert re.split(r"  +", lines[1])[-1].endswith(f" {says}")


@pytest.mark.parametrize("terminal", [False, True])
async def test_a_wait_counts_its_seconds_only_where_its_line_is_drawn_again(terminal):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, color_system=None)
    with LiveTable(console) as table:
        for seconds in (6.0, 7.0):
            table.on_progress(Progress("http://h", "still loading", waited_s=seconds))
        if terminal:
            table._live.refresh()
    told = out.getvalue()
    assert ("still loading (7 s)" in told) is terminal
    assert terminal or told == "http://h: still loading\n"


@pytest.mark.parametrize(("width", "drawn"), [(40, False), (74, False), (75, True), (200, True)])
async def test_a_terminal_too_narrow_for_the_table_gets_lines(width, drawn):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, color_system=None)
    with LiveTable(console) as table:
        await table.on_level(level(1, "SmolLM2-135M Q4_1"), ())
    told = out.getvalue()
    # A table that is drawn again moves the cursor; a line is written once, and whole.
    assert ("\x1b[" in told) is drawn
    assert drawn or len(told.splitlines()) == 2


async def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    with LiveTable(Console(file=out, force_terminal=True, width=100)) as table:
        await table.on_level(level(1), ())
        assert len(out.getvalue().splitlines()) == 2
