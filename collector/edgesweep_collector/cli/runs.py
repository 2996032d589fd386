"""``runs``: the archived runs, or one of them with its levels."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from edgesweep.run_json import run_object

from .options import (
    AsJson,
    Config,
    add_row,
    known_run,
    new_table,
    opened_archive,
    show,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep.records import LevelResult, Run
    from edgesweep_collector.archive.rows import RunRow

_MOST = 10**6


def runs(
    config: Config,
    run_id: Annotated[str | None, typer.Argument(help="Show this run with its levels.")] = None,
    device: Annotated[str | None, typer.Option(help="Only runs of this device.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=_MOST, help="At most this many, newest first.")
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """List runs, or show one (as JSON: edgesweep.run/1)."""
    with opened_archive(config) as archive:
        if run_id is None:
            _print_list(archive.runs(device, limit), as_json)
            return
        found = known_run(archive, run_id)
        run = archive.run(found)
        levels = [row.level for row in archive.levels(found)]
    if run is None:
        raise typer.Exit(1)
    if as_json:
        typer.echo(json.dumps(run_object(run, levels), indent=2, allow_nan=False))
    else:
        _print_run(run, levels)


def _print_list(rows: Sequence[RunRow], as_json: bool) -> None:
    if as_json:
        lines = [{**asdict(row), "state": row.state.value} for row in rows]
        typer.echo(json.dumps({"runs": lines}, indent=2))
        return
    table = new_table("run", "device", "state", "started", "levels", "reason")
    for row in rows:
        started = _instant(row.started_wall_ns)
        levels = str(row.n_archived)
        add_row(table, row.run_id, row.device_id, row.state.value, started, levels, row.reason)
    show(table)


def _print_run(run: Run, levels: Sequence[LevelResult]) -> None:
    title = f"{run.run_id} on {run.device.device_id}: {run.state.value} {run.reason}"
    table = new_table("contender", "session", "workload", "level", "status", "tok/s", "TTFT p50")
    for level in levels:
        ttft = level.distributions.get("ttft_s")
        add_row(
            table,
            level.contender.name,
            str(level.session),
            level.workload.name,
            str(level.concurrency),
            " ".join([level.status.value, *(flag.name for flag in level.flags)]),
            _figure(level.values.get("output_tokens_per_s"), ""),
            _figure(ttft.p50 if ttft else None, " s"),
        )
    show(title.rstrip(), table)


def _figure(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.4g}{unit}"


def _instant(ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ns / 1e9, timezone.utc):%Y-%m-%d %H:%M:%S}Z"
    except (OverflowError, ValueError):  # a device's clock may show anything
        return "-"
