"""``edgesweep-agent spool``: what the daemon still holds, and what a technician does about it."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import msgspec
import typer
from anyio import from_thread, to_thread

from edgesweep import carried
from edgesweep.carried import Carried
from edgesweep.sizes import size_text
from edgesweep_agent import control
from edgesweep_agent.control import Row
from edgesweep_agent.errors import SpoolError, UsageError
from edgesweep_agent.settings import load_settings
from edgesweep_agent.spool import SpoolCopy
from edgesweep_common.outfile import STANDARD_OUTPUT, place, sink

from . import values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from typing import BinaryIO


spool = typer.Typer(
    help="What the daemon still holds, and whether it can deliver.",
    rich_markup_mode=None,
    epilog="""\b
Examples:
  edgesweep-agent spool status --config /etc/edgesweep/agent.toml
  edgesweep-agent spool show --config /etc/edgesweep/agent.toml --refused
  edgesweep-agent spool export /media/stick/press-07.envelopes --config /etc/edgesweep/agent.toml
  edgesweep-agent spool export press-07.envelopes --file /mnt/dead-disk/spool.db
  edgesweep-collector ingest press-07.envelopes --config collector.toml""",
)

_CONFIG = typer.Option(
    "--config", parser=values.path, metavar="FILE", help="The running daemon's TOML file."
)
Config = Annotated[Path | None, _CONFIG]
Daemon = Annotated[Path, _CONFIG]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        parser=values.path,
        metavar="FILE",
        help="Or: a spool that no daemon runs on, such as a copy.",
    ),
]
_MOST_ROWS = 10**6
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@spool.callback()
def _root() -> None:
    """Look into the spool."""


@spool.command("status")
def status(config: Daemon, as_json: AsJson = False) -> None:
    """Ask the running daemon for the state of its spool and of its uplink."""
    report = anyio.run(control.status, load_settings(config).control.socket)
    facts = msgspec.to_builtins(report)
    del facts["answer"]
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        typer.echo(f"{name:16} {_text(value)}")


@spool.command("show")
def show(
    config: Config = None,
    file: File = None,
    refused: Annotated[
        bool, typer.Option("--refused", help="Only what the collector refused.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=_MOST_ROWS, help="Rows at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the rows, those that leave first on top."""
    if file is None:
        socket = _socket(config)
        rows = anyio.run(lambda: control.rows(socket, limit=limit, refused=refused))
    else:
        _refuse_both(config)
        with closing(SpoolCopy(file)) as copy:
            found = copy.rejected() if refused else copy.rows(limit)
        rows = [Row.of(one) for one in found[:limit]]
    if as_json:
        typer.echo(json.dumps([msgspec.to_builtins(row) for row in rows], indent=2))
    else:
        typer.echo("\n".join(_table(rows)))


@spool.command("export")
def export(
    to: Annotated[
        Path,
        typer.Argument(
            parser=values.path,
            metavar="FILE",
            help="Where the envelopes go; - for standard output.",
        ),
    ],
    config: Config = None,
    file: File = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write all that waits to a file, for `edgesweep-collector ingest FILE`.

    The rows go on waiting: what the archive then has already is known by its number, and leaves
    the spool with the next connection.
    """
    aside = to == STANDARD_OUTPUT
    target = to if aside else place("FILE", to)
    if not aside and target.exists() and not force:
        raise UsageError(f"{to} is there already: give another name, or --force")
    if file is None:
        count = anyio.run(_export_live, _socket(config), target)
    else:
        _refuse_both(config)
        with closing(SpoolCopy(file)) as copy:
            count = _written(target, copy.export)
    size = None if aside else target.stat().st_size
    if as_json:
        told = json.dumps({"file": str(to), "records": count, "bytes": size})
    else:
        how_large = "" if size is None else f", {size_text(size)}"
        told = f"{to}: {count} records{how_large}"
    typer.echo(told, err=aside)


@spool.command("requeue")
def requeue(
    config: Daemon,
    rows: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EPOCH/SEQ]...", help="As `spool show --refused` names them."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that was refused.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let records that the collector refused be sent again, once its fault is mended."""
    if bool(rows) == everything:
        raise UsageError("name rows, such as 1f2e3d4c5b6a7988/12, or give --all")
    keys = [_key(name) for name in rows or ()]
    socket = load_settings(config).control.socket
    count = anyio.run(control.requeue, socket, None if everything else keys)
    typer.echo(json.dumps({"requeued": count}) if as_json else f"{count} records wait again")


def _socket(config: Path | None) -> Path:
    if config is None:
        raise UsageError("give --config of the running daemon, or --file of a spool at rest")
    return load_settings(config).control.socket


def _refuse_both(config: Path | None) -> None:
    if config is not None:
        raise UsageError("--config and --file: give one of them")


async def _export_live(socket: Path, target: Path) -> int:
    """From the daemon to the file some at a time: a spool may be larger than the memory."""
    waiting = control.envelopes(socket)

    def pulled() -> Iterator[Carried]:
        while (one := from_thread.run(_next, waiting)) is not None:
            yield Carried(one)

    return await to_thread.run_sync(_written, target, lambda sink: carried.write(sink, pulled()))


async def _next(waiting: AsyncIterator[bytes]) -> bytes | None:
    """The next one; ``None`` behind the last."""
    async for one in waiting:
        return one
    return None


def _written(target: Path, write: Callable[[BinaryIO], int]) -> int:
    """Whole or not at all: a stick that is full, or pulled, leaves no half of a file."""
    try:
        with sink(target) as file:
            return write(file)
    except OSError as error:
        raise SpoolError(f"{target}: {error.strerror}; nothing has left the spool") from error


def _key(name: str) -> tuple[str, int]:
    epoch, slash, seq = name.partition("/")
    if not slash or not seq.isdecimal():
        raise UsageError(f"{name!r} is no row: write EPOCH/SEQ as `spool show --refused` does")
    return epoch, int(seq)


def _text(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items()) or "-"
    return value if value != "" else "-"


def _table(rows: Iterable[Row]) -> Iterable[str]:
    yield f"{'row':36} {'kind':10} {'made':20} {'size':>9} state"
    for row in rows:
        made = "-" if row.wall_ns is None else _utc(row.wall_ns)
        state = f"{row.state}: {row.reason}" if row.reason else row.state
        name = f"{row.epoch}/{row.seq}"
        yield f"{name:36} {row.kind:10} {made:20} {size_text(row.size_bytes):>9} {state}"


def _utc(wall_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(wall_ns / 1e9))
