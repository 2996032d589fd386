"""A program of several commands, one module each; only what was typed is imported."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module, metadata
from typing import TYPE_CHECKING

import typer

from .oneline import one_line_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


@dataclass(frozen=True)
class Program:
    """What there is to run.

    Attributes:
        name: As it is typed.
        help: What it is for, in a sentence.
        package: Where the module of each command is; it has a function, or a group of commands,
            of its own name.
        commands: Their names.
        examples: The end of each one's ``--help``, and under "" that of the program's.
    """

    name: str
    help: str
    package: str
    commands: Sequence[str]
    examples: Mapping[str, str]

    def command_line(self, names: Iterable[str] | None = None) -> typer.Typer:
        """The commands of these names, or all; what the others need is not imported."""
        app = typer.Typer(
            name=self.name,
            help=self.help,
            epilog=self.examples[""],
            no_args_is_help=True,
            add_completion=False,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
        )
        app.callback()(_root(self.name))
        for name in self.commands if names is None else names:
            command = getattr(import_module(f".{name}", self.package), name)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name)
            else:
                app.command(name, epilog=self.examples[name])(command)
        return app

    def run(self, words: list[str]) -> None:
        """Run the command that was typed; the process ends with its exit code."""
        known = bool(words) and words[0] in self.commands
        with one_line_errors(self.name):
            # All of them where the help is wanted, or none has the name.
            self.command_line(words[:1] if known else None)(words)


def _root(name: str) -> Callable[..., None]:
    def print_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{name} {metadata.version('edgesweep')}")
            raise typer.Exit

    version = typer.Option(
        False, "--version", callback=print_version, is_eager=True, help="Print and exit."
    )

    def root(_version: bool = version) -> None:
        """Options that stand before a command."""

    return root
