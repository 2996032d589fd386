"""What the options of the command line take; typer names the option in every complaint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from edgesweep.durations import finite, seconds, seconds_or_zero

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def _complaining(parse: Callable[[str], T]) -> Callable[[object], T]:
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


def _speed(text: str) -> float:
    number = finite(text)
    if number < 0:
        raise ValueError(f"{text!r} is no speed: write 1, 60, or 0 for as fast as it goes")
    return number


path = _complaining(_path)
duration_s = _complaining(seconds)
interval_s = _complaining(seconds_or_zero)
speed = _complaining(_speed)
