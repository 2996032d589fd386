"""``edgesweep-agent spool``: what the daemon still holds."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer resolves the annotation
from typing import Annotated

import anyio
import msgspec
import typer

from edgesweep_agent import control
from edgesweep_agent.settings import load_settings

app = typer.Typer(
    help="What the daemon still holds, and whether it can deliver.", rich_markup_mode=None
)


@app.callback()
def _root() -> None:
    """Look into the spool."""


@app.command("status")
def status(
    config: Annotated[Path, typer.Option("--config", help="The daemon's TOML file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask the running daemon for the state of its spool and of its uplink."""
    report = anyio.run(control.status, load_settings(config).control.socket)
    facts = msgspec.to_builtins(report)
    del facts["answer"]
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        typer.echo(f"{name:14} {value}")
