"""What options take that both command lines have; typer names the option in every complaint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def complaining(parse: Callable[[str], T]) -> Callable[[object], T]:
    """For typer, which also hands a default over, as it is."""

    def parsed(value: object) -> T:
        try:
            return parse(str(value))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return parsed


def _path(text: str) -> Path:
    """``Path("")`` would be the folder that the user happens to be in."""
    if not text:
        raise ValueError("an empty name names no file (an unset variable?)")
    return Path(text)


path = complaining(_path)
