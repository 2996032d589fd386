"""What several commands share: the settings file, and how an error ends a command."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.core.pairing import PairingError
from edgesweep_collector.errors import CollectorError, NotArchived
from edgesweep_collector.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgesweep.records import LevelResult

Config = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="The collector's settings (TOML).")
]
Runs = Annotated[
    list[str] | None,
    typer.Option("--run", metavar="ID", help="A run; may be given again [default: the newest]."),
]
Contenders = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--contenders",
        metavar="A B",
        help="Names or ids of the two to compare [default: the two that ran].",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the command with one line on stderr and the error's own exit code."""
    try:
        yield
    except CollectorError as error:
        typer.echo(f"edgesweep-collector: {error}", err=True)
        raise typer.Exit(error.exit_code) from error
    except PairingError as error:
        typer.echo(f"edgesweep-collector: {printable(str(error))}", err=True)
        raise typer.Exit(2) from error


@contextmanager
def opened_archive(config: Path) -> Iterator[Archive]:
    """The archive that a settings file names, which has to exist."""
    archive = Archive.open(load(config).archive.url, create=False)
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
        levels: list[LevelResult] = []
        for run_id in wanted:
            if archive.run(run_id) is None:
                raise NotArchived(f"no run {printable(run_id)} in the archive; `runs` lists them")
            levels += [row.level for row in archive.levels(run_id)]
    return wanted, sorted(levels, key=lambda level: level.started_wall_ns)


def printable(text: str) -> str:
    """Text of a device without what a terminal would take for a command."""
    return "".join(char if char.isprintable() else "?" for char in text)
