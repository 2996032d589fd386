"""The command line of the agent: one file a command, no logic in them."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from edgesweep_agent.errors import AgentError

from . import probe, serve, spool, sweep

_EPILOG = """Examples:

  edgesweep-agent sweep --url http://127.0.0.1:8080

  edgesweep-agent sweep --plan plan.toml --json run.json --samples samples.jsonl

  edgesweep-agent serve --config agent.toml
"""

app = typer.Typer(
    name="edgesweep-agent",
    help="Sweep the local inference engine over concurrency, and deliver what was measured.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("sweep")(sweep.sweep)
app.command("probe")(probe.probe)
app.command("serve")(serve.serve)
app.add_typer(spool.app, name="spool")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"edgesweep-agent {version('edgesweep')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
) -> None:
    """Options that stand before a command."""


def main() -> None:
    """Run a command; what the operator can mend is one line on stderr, never a traceback."""
    try:
        app()
    except AgentError as error:
        typer.echo(f"edgesweep-agent: {error}", err=True)
        sys.exit(error.exit_code)
