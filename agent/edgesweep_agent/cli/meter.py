"""``edgesweep-agent meter``: what a meter at the wall saw of a run's levels."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer resolves the annotation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgesweep_agent.core import metered
from edgesweep_agent.core.meter_csv import instant_ns, shifted
from edgesweep_agent.errors import ProgramError, UsageError
from edgesweep_agent.sensors.meter import read_log, read_run
from edgesweep_common.outfile import STANDARD_OUTPUT, place, sink

from . import values
from .options import (  # noqa: TC001 - typer resolves the annotations
    MeterEdge,
    MeterJson,
    MeterOffset,
    MeterRun,
    MeterStart,
)
from .table import ABSENT

if TYPE_CHECKING:
    from edgesweep_agent.core.meter_csv import Trace

FIRST = "first"
"""In place of an instant: the start of the run's first level."""


def meter(
    log: Annotated[
        Path, typer.Argument(parser=values.path, metavar="CSV", help="The meter's log.")
    ],
    run: MeterRun,
    offset: MeterOffset = None,
    edge: MeterEdge = None,
    start: MeterStart = None,
    json_file: MeterJson = None,
) -> None:
    """Add power and energy at the wall to the levels of a run, from an external meter's CSV."""
    aside = json_file == STANDARD_OUTPUT
    target = json_file if json_file is None or aside else place("--json", json_file)
    facts = read_run(run)
    trace = read_log(log, start_ns=_instant("--start", start))
    trace = _placed(trace, facts["levels"], offset, edge, aside=aside)
    levels = [metered.with_wall(level, trace) for level in facts["levels"]]
    typer.echo(
        f"{', '.join(trace.columns)}: {len(trace.series.points)} readings, one every "
        f"{trace.period_s:.3g} s; {trace.skipped} lines without",
        err=aside,
    )
    for level in levels:
        typer.echo(_line(level), err=aside)
    if target is not None:
        _write(target, {**facts, "levels": levels})
    if not any(level["wall"]["joules"] is not None for level in levels):
        raise ProgramError(
            f"{log}: no level has energy: if the meter's clock is off, give --offset or --edge"
        )


def _placed(
    trace: Trace,
    levels: list[dict[str, Any]],
    offset: float | None,
    edge: str | None,
    *,
    aside: bool,
) -> Trace:
    """The trace on the device's clock; ``aside``: standard output is not for people."""
    if not trace.relative:
        trace = shifted(trace, round((offset or 0.0) * 1e9))
    if edge is not None:
        at_ns = metered.first_load_ns(levels) if edge == FIRST else _instant("--edge", edge)
        if at_ns is None:
            raise UsageError(f"--edge {FIRST}: no level of the run says when it began")
        found = metered.aligned(trace, at_ns)
        if found is None:
            raise UsageError(
                f"--edge {edge}: the meter shows no step of power within {metered.SEARCH_S:.0f} s "
                "of it: say with --offset about how far its clock is off"
            )
        told = offset or 0.0
        typer.echo(f"--offset {told + found[1]:.2f}, to within {trace.period_s:.2g} s", err=aside)
        return found[0]
    if trace.relative:
        raise UsageError("the log's times count from a start: say --start WHEN, or --edge first")
    return trace


def _instant(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    found = instant_ns(text)
    if found is None:
        raise UsageError(f"{option} {text}: wanted is 2026-01-31T12:00:00Z, or s since 1970")
    return found


def _line(level: dict[str, Any]) -> str:
    wall = level["wall"]
    name = f"{str(level.get('contender_id', ''))[:8]} session {level.get('session')}"
    where = f"{name} {level.get('workload')} level {level.get('concurrency')}:"
    if wall["joules"] is None:
        return f"{where} {ABSENT} ({wall['reason']})"
    per_token = wall["energy_j_per_token"]
    told = ABSENT if per_token is None else f"{per_token:.3g} J"
    return f"{where} {wall['mean_w']:.2f} W, {wall['joules']:.1f} J, {told} per output token"


def _write(path: Path, run: dict[str, Any]) -> None:
    with sink(path) as file:
        file.write(f"{json.dumps(run, indent=2)}\n".encode())
