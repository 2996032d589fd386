"""What the options of the command line take; typer names the option in every complaint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from edgesweep.durations import MOST_S, finite, seconds, seconds_or_zero

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


def _duration_text(text: str) -> str:
    seconds(text)
    return text


def _share(text: str) -> float:
    number = finite(text)
    if not 0 < number < 1:
        raise ValueError(f"{text!r} is no share: write a number above 0 and below 1, such as 0.02")
    return number


def _rate(text: str) -> float:
    number = finite(text)
    if number <= 0:
        raise ValueError(f"{text!r} is no rate: write a number above 0, such as 0.5")
    return number


def _offset_s(text: str) -> float:
    number = finite(text)
    if abs(number) > MOST_S:
        raise ValueError(f"{text!r} is more than a hundred years: write seconds, such as -3600")
    return number


path = _complaining(_path)
wait_s = _complaining(seconds_or_zero)
duration_text = _complaining(_duration_text)
share = _complaining(_share)
rate_per_s = _complaining(_rate)
offset_s = _complaining(_offset_s)
