"""What the commands that take in a file of envelopes share: reading it, and what it came to."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import typer

from edgesweep import carried
from edgesweep_collector.errors import ProgramError
from edgesweep_collector.ingest.files import Taken, take_in
from edgesweep_common.texts import printable

from .options import show

if TYPE_CHECKING:
    from pathlib import Path

    from edgesweep_collector.archive.archive import Archive

_TELL_EVERY_S = 2.0


class Progress:
    """Says how far it is, to a terminal only and every other second."""

    def __init__(self) -> None:
        self._due_s = time.monotonic() + _TELL_EVERY_S

    def __call__(self, count: int) -> None:
        """Told how many envelopes were dealt with."""
        if time.monotonic() >= self._due_s and sys.stderr.isatty():
            typer.echo(f"{count} envelopes so far", err=True)
            self._due_s = time.monotonic() + _TELL_EVERY_S


def taken_from(file: Path, archive: Archive, *, is_backup: bool) -> Taken:
    """Archive what a file holds.

    Raises:
        ProgramError: the file cannot be read.
        ArchiveUnavailable: the archive does not write.
    """
    progress = Progress()
    try:
        with file.open("rb") as opened:
            return take_in(
                archive,
                carried.read(opened),
                time.time_ns(),
                is_backup=is_backup,
                progress=lambda taken: progress(taken.n),
            )
    except OSError as error:
        raise ProgramError(f"cannot read {file}: {error.strerror}") from error


def end_with(taken: Taken, file: Path, *, as_json: bool) -> None:
    """Say what became of a file; exit 1 if anything of it is not in the archive now."""
    if as_json:
        facts = {
            "file": str(file),
            "stored": taken.stored,
            "duplicates": taken.duplicates,
            "conflicts": taken.conflicts,
            "rejected": dict(sorted(taken.rejected.items())),
            "problem": taken.problem or None,
        }
        typer.echo(json.dumps(facts))
    else:
        show(_told(taken))
    if taken.problem:
        why = f"{printable(taken.problem)}; what came before is archived"
        typer.echo(f"edgesweep-collector: {file}: {why}", err=True)
    if taken.problem or taken.conflicts or taken.rejected:
        raise typer.Exit(1)


def _told(taken: Taken) -> str:
    refused = ", ".join(f"{reason} {n}" for reason, n in sorted(taken.rejected.items()))
    parts = [
        f"{taken.stored} new",
        f"{taken.duplicates} already here",
        f"{taken.conflicts} in conflict: others are archived under their numbers"
        if taken.conflicts
        else "",
        f"{taken.rejected.total()} refused ({refused})" if refused else "",
    ]
    return "; ".join(part for part in parts if part)
