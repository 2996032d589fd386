"""The command line of the agent: one file a command, no logic in them."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from edgesweep_agent.errors import AgentError

from . import fit, inspect, meter, probe, serve, spool, sweep

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

# Click keeps the lines of a block that begins with \b as they are.
_EXAMPLES = {
    "": """\b
Examples:
  edgesweep-agent sweep --url http://127.0.0.1:8080
  edgesweep-agent sweep --plan plan.toml --json run.json --samples samples.jsonl
  edgesweep-agent serve --config agent.toml""",
    "sweep": """\b
Examples:
  edgesweep-agent sweep --url http://127.0.0.1:8080
  edgesweep-agent sweep --url http://127.0.0.1:8000 --model NAME --levels 1,2,4,8 \\
      --workload chat-512-128 --budget 1h --json run.json
  edgesweep-agent sweep --plan plan.toml --submit --config agent.toml
  edgesweep-agent sweep --plan plan.toml --dry-run""",
    "probe": """\b
Examples:
  edgesweep-agent probe http://127.0.0.1:8080
  edgesweep-agent probe http://127.0.0.1:8000 --json""",
    "inspect": """\b
Examples:
  edgesweep-agent inspect
  edgesweep-agent inspect --json""",
    "fit": """\b
Examples:
  edgesweep-agent fit model.gguf --context 4096 --reserve 2GiB
  edgesweep-agent fit model.gguf --class 8g --levels 1,4,16 --json""",
    "meter": """\b
Examples:
  edgesweep-agent meter wall.csv --run run.json --json run-wall.json
  edgesweep-agent meter wall.csv --run run.json --edge first""",
    "serve": """\b
Example:
  edgesweep-agent serve --config /etc/edgesweep/agent.toml""",
}

app = typer.Typer(
    name="edgesweep-agent",
    help="Sweep the local inference engine over concurrency, and deliver what was measured.",
    epilog=_EXAMPLES[""],
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("sweep", epilog=_EXAMPLES["sweep"])(sweep.sweep)
app.command("probe", epilog=_EXAMPLES["probe"])(probe.probe)
app.command("inspect", epilog=_EXAMPLES["inspect"])(inspect.inspect)
app.command("fit", epilog=_EXAMPLES["fit"])(fit.fit)
app.command("meter", epilog=_EXAMPLES["meter"])(meter.meter)
app.command("serve", epilog=_EXAMPLES["serve"])(serve.serve)
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


def _end(error: AgentError) -> NoReturn:
    typer.echo(f"edgesweep-agent: {error}", err=True)
    sys.exit(error.exit_code)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def main() -> None:
    """Run a command; what the operator can mend is one line on stderr, never a traceback."""
    try:
        app()
    except AgentError as error:
        _end(error)
    except BrokenPipeError:
        # Whoever read us has what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _end(AgentError(f"{error.filename or 'output'}: {error.strerror}"))
    except BaseExceptionGroup as group:
        errors = [error for error in _leaves(group) if isinstance(error, AgentError)]
        if not errors:
            raise
        _end(errors[0])
    except KeyboardInterrupt:
        typer.echo("edgesweep-agent: interrupted before anything was measured", err=True)
        sys.exit(130)
