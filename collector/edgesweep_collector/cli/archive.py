"""``archive``: back the whole archive up into one file, and restore such a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgesweep import carried
from edgesweep.sizes import size_text
from edgesweep_collector.archive.archive import Archive
from edgesweep_collector.archive.backup import TRANSPORT
from edgesweep_collector.settings import load
from edgesweep_common.outfile import STANDARD_OUTPUT, place, sink

from . import values
from .carried import Progress, end_with, taken_from
from .options import AsJson, Config, opened_archive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edgesweep.carried import Carried

archive = typer.Typer(
    help="Back the archive up into one file, or restore such a file.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="""\b
Examples:
  edgesweep-collector archive backup fleet.envelopes --config collector.toml
  edgesweep-collector archive restore fleet.envelopes --config other.toml""",
)

_Written = Annotated[
    Path,
    typer.Argument(
        parser=values.path, metavar="FILE", help="Written, or replaced; - for standard output."
    ),
]
_Read = Annotated[
    Path, typer.Argument(parser=values.path, metavar="FILE", help="Made by archive backup.")
]


@archive.callback()
def _root() -> None:
    """Move a whole archive, also between SQLite and PostgreSQL."""


@archive.command()
def backup(file: _Written, config: Config, as_json: AsJson = False) -> None:
    """Write everything the archive holds into FILE; the collector may run meanwhile."""
    to_stream = file == STANDARD_OUTPUT
    target = file if to_stream else place("FILE", file)
    with opened_archive(config) as opened:
        count = _write(target, opened.carried())
    size = None if to_stream else target.stat().st_size
    if as_json:
        told = json.dumps({"file": str(file), "envelopes": count, "bytes": size})
    else:
        told = f"{count} envelopes, {'' if size is None else f'{size_text(size)}, '}in {file}"
    typer.echo(told, err=to_stream)


@archive.command()
def restore(file: _Read, config: Config, as_json: AsJson = False) -> None:
    """Archive what FILE holds and the archive does not; doing it again changes nothing."""
    opened = Archive.of(load(config).archive)
    try:
        taken = taken_from(file, opened, is_backup=True)
    finally:
        opened.close()
    end_with(taken, file, as_json=as_json)


def _write(file: Path, envelopes: Iterable[Carried]) -> int:
    """Whole or not at all; into a stream as it comes."""
    counted = _Counted(envelopes)
    with sink(file) as out:
        carried.write(out, counted)
    return counted.n


class _Counted:
    """Envelopes as they pass; what an archive says of itself is none."""

    def __init__(self, envelopes: Iterable[Carried]) -> None:
        self._envelopes = envelopes
        self._progress = Progress()
        self.n = 0

    def __iter__(self) -> Iterator[Carried]:
        for one in self._envelopes:
            self.n += one.transport != TRANSPORT
            self._progress(self.n)
            yield one
