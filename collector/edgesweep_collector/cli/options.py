"""What several commands share: the settings file, and how things are shown."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.errors import NotArchived
from edgesweep_collector.settings import load
from edgesweep_common.texts import printable

from . import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgesweep.records import LevelResult

_PIPE_WIDTH = 400
_LOOK_AT = 10_000
"""Newest runs among which the start of an id is looked for."""

Config = Annotated[
    Path,
    typer.Option(
        "--config", parser=values.path, metavar="FILE", help="The collector's settings (TOML)."
    ),
]
Runs = Annotated[
    list[str] | None,
    typer.Option("--run", metavar="ID", help="A run; may be given again (default: the newest)."),
]
Contenders = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--contenders",
        metavar="A B",
        help="Names or ids of the two to compare (default: the two that ran).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@contextmanager
def opened_archive(config: Path) -> Iterator[Archive]:
    """The archive that a settings file names, which has to exist."""
    archive = Archive.of(load(config).archive, create=False)
    try:
        yield archive
    finally:
        archive.close()


def archived_levels(
    config: Path, run_ids: list[str] | None
) -> tuple[tuple[str, ...], list[LevelResult]]:
    """The runs asked for, or the newest one, and their levels in the order of their making.

    Raises:
        NotArchived: there is no such run, or none at all.
    """
    with opened_archive(config) as archive:
        newest = [row.run_id for row in archive.runs(limit=1)]
        wanted = tuple(run_ids or newest)
        if not wanted:
            raise NotArchived("the archive holds no run yet")
        found = tuple(known_run(archive, run_id) for run_id in wanted)
        levels = [row.level for run_id in found for row in archive.levels(run_id)]
    return found, sorted(levels, key=lambda level: level.started_wall_ns)


def new_table(*names: str) -> Table:
    """A table without lines; its first column is to be copied, and is never cut."""
    first, *rest = names
    return Table(Column(first, no_wrap=True), *rest, box=None, pad_edge=False, header_style="bold")


def add_row(table: Table, *cells: str) -> None:
    """Add a row of texts that may come from a device."""
    table.add_row(*(Text(printable(cell)) for cell in cells))


def show(*shown: Table | str) -> None:
    """Print for a person; into a pipe or a file nothing is wrapped."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPE_WIDTH)
    for one in shown:
        console.print(Text(printable(one)) if isinstance(one, str) else one)


def known_run(archive: Archive, given: str) -> str:
    """The whole id of a run from the start of it.

    Raises:
        NotArchived: no run begins like that, or more than one does.
    """
    if archive.run(given) is not None:
        return given
    found = [x.run_id for x in archive.runs(limit=_LOOK_AT) if x.run_id.startswith(given)]
    if len(found) != 1 or not given:
        how = "no run" if not found else f"{len(found)} runs begin with"
        raise NotArchived(f"{how} {printable(given)} in the archive; `runs` lists them")
    return found[0]
