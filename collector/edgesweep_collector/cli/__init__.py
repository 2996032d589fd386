"""The command line, ``edgesweep-collector``: one module per command."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Annotated

import typer

from .compare import compare
from .crossover import crossover
from .devices import devices
from .report import report
from .runs import runs
from .serve import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
  edgesweep-collector devices --config collector.toml --json""",
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
    "crossover": """\b
Examples:
  edgesweep-collector crossover problem.json
  edgesweep-collector crossover problem.json --json
The file's format is in docs/crossover.md.""",
}

COMMANDS: Mapping[str, Callable[..., None]] = {
    "serve": serve,
    "devices": devices,
    "runs": runs,
    "compare": compare,
    "report": report,
    "crossover": crossover,
}

app = typer.Typer(
    name="edgesweep-collector",
    help="Archive what the fleet measured, and say which engine to use where.",
    epilog=_EXAMPLES[""],
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _name, _command in COMMANDS.items():
    app.command(_name, epilog=_EXAMPLES[_name])(_command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"edgesweep-collector {metadata.version('edgesweep')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; the process ends with its exit code."""
    app()
