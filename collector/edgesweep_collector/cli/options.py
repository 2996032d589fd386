"""What several commands share: the settings file, and how an error ends a command."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.errors import CollectorError
from edgesweep_collector.settings import load

if TYPE_CHECKING:
    from collections.abc import Iterator

Config = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="The collector's settings (TOML).")
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


@contextmanager
def opened_archive(config: Path) -> Iterator[Archive]:
    """The archive that a settings file names, which has to exist."""
    archive = Archive.open(load(config).archive.url, create=False)
    try:
        yield archive
    finally:
        archive.close()


def printable(text: str) -> str:
    """Text of a device without what a terminal would take for a command."""
    return "".join(char if char.isprintable() else "?" for char in text)
