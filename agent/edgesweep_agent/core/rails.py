"""What each supply rail measures: which may be added up, and which is a part of another.

Only ``VDD_IN``, ``POM_5V_IN`` and Thor's ``VIN`` are what enters a module. An AGX board has no
such rail: its rails add up to less than a meter at the input shows, and are marked so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .chip_names import slug

if TYPE_CHECKING:
    from collections.abc import Iterable

_INPUTS = frozenset({"vdd_in", "pom_5v_in", "vin"})
_NO_RAILS = frozenset({"", "nc", "sum_of_shunt_voltages"})


@dataclass(frozen=True, slots=True)
class Rail:
    """One channel: its name, where its figures are, and the current that it is limited to.

    Attributes:
        power_path: A file with the power; else it is voltage x current.
        power_unit_w: Watts of one unit there: mW in the 4.9 kernels, uW of an INA238.
    """

    name: str
    voltage_path: str = ""
    current_path: str = ""
    power_path: str = ""
    power_unit_w: float = 1e-3
    limit_path: str = ""


def rail_name(label: str) -> str:
    """``vdd_cpu_gpu_cv`` for ``VDD_CPU_GPU_CV``; "" for what is no rail, such as ``NC``."""
    name = slug(label).replace("-", "_")
    return "" if name in _NO_RAILS else name


def boundary(name: str, names: Iterable[str]) -> str:
    """``input`` or ``rails`` for what adds up to the board's power, "" for a part of it."""
    if name in _INPUTS:
        return "input"
    return "" if _INPUTS & set(names) else "rails"
