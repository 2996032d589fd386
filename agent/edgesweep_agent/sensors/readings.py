"""Turns what a file gave into a reading: one place for the three things that it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core import temperatures

from .base import Reading, State
from .files import Missing

if TYPE_CHECKING:
    from .files import Files


_MOST = 2**63
"""No counter of a kernel is this high; NaN is neither above nor below."""


def reading(
    name: str, unit: str, found: float | Missing, *, scale: float = 1.0, boundary: str = ""
) -> Reading:
    """A value in its unit, or the reason for there being none."""
    if isinstance(found, Missing):
        return Reading(name, unit, found.state, reason=found.reason, boundary=boundary)
    if not -_MOST < found < _MOST:
        return Reading(name, unit, State.FAILED, reason=f"{found!s:.40} is no reading")
    return Reading(name, unit, value=found * scale, boundary=boundary)


def of_file(
    files: Files, name: str, unit: str, path: str, *, scale: float = 1.0, boundary: str = ""
) -> Reading:
    """The number in a file, scaled."""
    return reading(name, unit, files.number(path), scale=scale, boundary=boundary)


def nothing(name: str, unit: str, reason: str) -> list[Reading]:
    """What a sensor says on a box that has no such hardware."""
    return [Reading(name, unit, State.ABSENT, reason=reason)]


def numbered(names: list[str]) -> list[str]:
    """Names made distinct: the second ``x`` becomes ``x_1``."""
    return temperatures.distinct(names)
