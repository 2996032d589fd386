"""Which temperatures to believe, what zones are called, and their mean and maximum."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import chip_names

if TYPE_CHECKING:
    from collections.abc import Iterable

LOWEST_C = -40.0
HIGHEST_C = 150.0
"""Outside lies what a switched-off sensor says: -256 degC on every Tegra."""

_PMIC_CONSTANT_C = 100.0
_CONSTANTS = frozenset({"pmic", "pmic_die"})


def believable(celsius: float | None) -> float | None:
    """The temperature, or ``None`` for what no running board can have."""
    return celsius if celsius is not None and LOWEST_C <= celsius <= HIGHEST_C else None


def of_zone(kind: str, celsius: float) -> float | None:
    """A zone's temperature; ``PMIC-Die`` of JetPack 4 is a constant, no measurement."""
    if zone(kind) in _CONSTANTS and celsius == _PMIC_CONSTANT_C:
        return None
    return believable(celsius)


def zone(kind: str) -> str:
    """``cpu`` for ``cpu-thermal``, ``CPU-therm`` and ``cpu_thermal``: JetPack 4 to 7 and Pi."""
    short = re.sub(r"[-_ ]?(?:therm(?:al)?|temp)$", "", kind.strip(), flags=re.IGNORECASE)
    return chip_names.slug(short or kind).replace("-", "_") or "unnamed"


def distinct(names: Iterable[str]) -> list[str]:
    """Names made distinct: the second ``x`` becomes ``x_1``, and steps aside for one called so."""
    given: list[str] = list(names)
    found: list[str] = []
    for name in given:
        free, number = name, 0
        while free in found or (number and free in given):
            number += 1
            free = f"{name}_{number}"
        found.append(free)
    return found


def highest(values: Iterable[float | None]) -> float | None:
    """The hottest of those that were read."""
    return max((value for value in values if value is not None), default=None)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that were read; a missing one is left out, never taken for 0."""
    read = [value for value in values if value is not None]
    return sum(read) / len(read) if read else None
