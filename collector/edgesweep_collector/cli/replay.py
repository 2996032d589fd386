"""``replay``: have a projection write a part of the archive again."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from edgesweep.durations import seconds
from edgesweep_collector.projection.replay import FOLLOWED, planned
from edgesweep_collector.projection.replay import replay as set_back

from .options import AsJson, Config, opened_archive, show

if TYPE_CHECKING:
    from edgesweep_collector.projection.replay import Replay

_PROJECTIONS = ", ".join(FOLLOWED)


def replay(
    config: Config,
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="From this effective time on: 2026-11-30, 2026-11-30T12:00Z, 36h (ago), or all.",
        ),
    ],
    projection: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"One of {_PROJECTIONS}; may be given again."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write archived records to InfluxDB again, also while the collector runs."""
    since_ns = _instant_ns(since, time.time_ns())
    names = projection or list(FOLLOWED)
    if unknown := sorted(set(names) - FOLLOWED.keys()):
        raise typer.BadParameter(f"no projection {unknown[0]!r}; there is {_PROJECTIONS}")
    with opened_archive(config) as archive:
        found = [(planned if dry_run else set_back)(archive, name, since_ns) for name in names]
    if as_json:
        typer.echo(json.dumps({"dry_run": dry_run, "replays": [asdict(one) for one in found]}))
    else:
        show(*(_told(one, dry_run=dry_run) for one in found))


def _told(one: Replay, *, dry_run: bool) -> str:
    will = "would" if dry_run else "will"
    if one.rows == 0:
        return f"{one.projection}: nothing {will} be written again"
    return (
        f"{one.projection}: {one.rows} records {will} be written again, of the archive's order "
        f"{one.back_to + 1} to {one.cursor}"
    )


def _instant_ns(text: str, now_ns: int) -> int | None:
    """``None`` for all of it; a time without a zone is UTC."""
    if text == "all":
        return None
    try:
        return now_ns - round(seconds(text) * 1e9)
    except (ValueError, OverflowError):
        pass
    try:
        # Python 3.10 knows no Z.
        then = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise typer.BadParameter(
            f"--since {text!r} is no time: write all, 36h, 2026-11-30 or 2026-11-30T12:00Z"
        ) from error
    if then.tzinfo is None:
        then = then.replace(tzinfo=timezone.utc)
    return round(then.timestamp() * 1e6) * 1000
