"""``ingest``: archive what a technician carried from a device that had no network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.settings import load

from . import values
from .carried import end_with, taken_from
from .options import AsJson, Config  # noqa: TC001 - typer resolves the annotations

_Exported = Annotated[
    Path,
    typer.Argument(
        parser=values.path, metavar="FILE", help="Made by edgesweep-agent spool export."
    ),
]


def ingest(file: _Exported, config: Config, as_json: AsJson = False) -> None:
    """Archive what FILE holds, checked as if it had come over the network.

    The device keeps its records until it reaches a collector, which then says that it has them.
    """
    opened = Archive.of(load(config).archive)
    try:
        taken = taken_from(file, opened, is_backup=False)
    finally:
        opened.close()
    end_with(taken, file, as_json=as_json)
