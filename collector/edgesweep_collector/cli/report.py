"""``report``: the answer as one self-contained HTML file."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from edgesweep_collector.core.pairing import pair
from edgesweep_collector.report.gather import gather
from edgesweep_collector.report.html import render_html
from edgesweep_common.outfile import STANDARD_OUTPUT, place, sink

from . import values
from .options import Config, Contenders, Runs, archived_levels

Out = Annotated[
    Path,
    typer.Option(
        "--out",
        parser=values.path,
        metavar="FILE",
        help="Where the HTML goes; - for standard output.",
    ),
]
Reproduce = Annotated[
    list[str] | None,
    typer.Option(help="A command line that measured it, to be shown; may be given again."),
]


def report(
    config: Config,
    out: Out,
    run: Runs = None,
    contender: Contenders = None,
    reproduce: Reproduce = None,
) -> None:
    """Write the report on two contenders: verdict, curves, table, and what was left out."""
    to_stream = out == STANDARD_OUTPUT
    target = out if to_stream else place("--out", out, make_folder=True)
    runs, levels = archived_levels(config, run)
    default = (f"edgesweep-collector report {' '.join(f'--run {one}' for one in runs)}",)
    facts = gather(
        pair(levels, contender),
        generated_at=datetime.now(timezone.utc),
        reproduce=tuple(reproduce) if reproduce else default,
    )
    with sink(target) as file:
        file.write(render_html(facts).encode())
    if not to_stream:
        typer.echo(str(out))
