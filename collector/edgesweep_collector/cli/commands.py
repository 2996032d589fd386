"""The commands of the program, and how one of them is run."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Annotated

import typer

from . import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterable

# Click keeps the lines of a block that begins with \b as they are.
_EXAMPLES = {
    "": """\b
Examples:
  edgesweep-collector serve --config /etc/edgesweep/collector.toml
  edgesweep-collector compare --config collector.toml
  edgesweep-collector crossover problem.json""",
    "serve": """\b
Example:
  edgesweep-collector serve --config collector.toml""",
    "devices": """\b
Examples:
  edgesweep-collector devices --config collector.toml
  edgesweep-collector devices --config collector.toml --json
  edgesweep-collector devices --config collector.toml --gaps""",
    "runs": """\b
Examples:
  edgesweep-collector runs --config collector.toml
  edgesweep-collector runs --config collector.toml 01a22dcb --json""",
    "compare": """\b
Examples:
  edgesweep-collector compare --config collector.toml
  edgesweep-collector compare --config collector.toml --run ID1 --run ID2 \\
      --contenders llama.cpp vLLM --metric ttft_s --json""",
    "report": """\b
Example:
  edgesweep-collector report --config collector.toml --out report.html""",
    "replay": """\b
Examples:
  edgesweep-collector replay --config collector.toml --since all --dry-run
  edgesweep-collector replay --config collector.toml --since 36h --projection influx_telemetry""",
    "ingest": """\b
Example:
  edgesweep-collector ingest press-07.envelopes --config collector.toml""",
    "mosquitto": """\b
Example:
  edgesweep-collector mosquitto --out broker --ca /etc/mosquitto/tls/ca.crt \\
      --cert /etc/mosquitto/tls/broker.crt --key /etc/mosquitto/tls/broker.key \\
      --collector collector.1 --collector collector.2""",
    "simulate": """\b
Examples:
  edgesweep-collector simulate --config collector.toml --devices 200 --duration 20m
  edgesweep-collector simulate --to 127.0.0.1:7443 --transport grpc --runs 1 --speed 0 --json
docs/simulate.md says what is planted.""",
    "crossover": """\b
Examples:
  edgesweep-collector crossover problem.json
  edgesweep-collector crossover problem.json --json
The file's format is in docs/crossover.md.""",
}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"edgesweep-collector {metadata.version('edgesweep')}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
) -> None:
    """Options that stand before a command."""


def command_line(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The commands of these names; what the others need is not imported."""
    app = typer.Typer(
        name="edgesweep-collector",
        help="Archive what the fleet measured, and say which engine to use where.",
        epilog=_EXAMPLES[""],
        rich_markup_mode=None,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name in names:
        command = getattr(import_module(f".{name}", __package__), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, epilog=_EXAMPLES[name])(command)
    return app


def _asked(words: list[str]) -> Iterable[str]:
    """The command that was typed; all of them where the help is wanted, or none has the name."""
    return words[:1] if words and words[0] in COMMANDS else COMMANDS


def run(words: list[str]) -> None:
    """Run the command that was typed; the process ends with its exit code."""
    command_line(_asked(words))(words)
