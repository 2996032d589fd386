"""One line of NVIDIA's ``tegrastats``, field by field, each of them optional.

The line differs by JetPack: a date in front, cores that are ``off``, a GPU frequency that is
bare, in a list or missing, power with and without ``mW``, a ``cached`` part of swap. JetPack
7.0 has no GPU load at all, which is unknown and not 0. The second figure of a rail is a running
mean since tegrastats was started: no base for energy, and left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import temperatures

if TYPE_CHECKING:
    from collections.abc import Mapping

_RAM = re.compile(r"\bRAM (\d+)/(\d+)MB")
_SWAP = re.compile(r"\bSWAP (\d+)/(\d+)MB")
_CPU = re.compile(r"\b(?:CPU|cpu) \[([^\]]*)\]")
_CORE = re.compile(r"(\d+)%")
_EMC = re.compile(r"\bEMC(?:_FREQ)? (\d+)%(?:@(\d+))?")
_GPU = re.compile(r"\bGR3D(?:_FREQ)? (?:(\d+)%)?(?:@\[?(\d+))?")
_TEMPERATURE = re.compile(r"\b([A-Za-z][\w-]*)@(-?\d+(?:\.\d+)?)C\b")
_RAIL = re.compile(r"\b([A-Z][A-Z0-9_]*) (-?\d+)(?:mW(?:/-?\d+(?:mW)?)?|/-?\d+(?:mW)?)(?=[\s/]|$)")


@dataclass(frozen=True, slots=True)
class Tegrastats:
    """What a line says; ``None`` for what it does not.

    Attributes:
        cpu_load_mean_percent: Over the cores that are online.
        temperatures_c: By zone; ``None`` for one that is switched off.
        power_mw: The present figure of each rail, by the name that the line has for it.
    """

    ram_used_mb: int | None = None
    ram_total_mb: int | None = None
    swap_used_mb: int | None = None
    swap_total_mb: int | None = None
    cpu_online: int | None = None
    cpu_off: int | None = None
    cpu_load_mean_percent: float | None = None
    gpu_load_percent: int | None = None
    gpu_freq_mhz: int | None = None
    emc_load_percent: int | None = None
    emc_freq_mhz: int | None = None
    temperatures_c: Mapping[str, float | None] = field(default_factory=dict)
    power_mw: Mapping[str, int] = field(default_factory=dict)

    @property
    def power_in_mw(self) -> int | None:
        """What enters the module; AGX boards do not measure it."""
        inputs = ("VDD_IN", "POM_5V_IN", "VIN")
        return next((self.power_mw[name] for name in inputs if name in self.power_mw), None)


def parse(line: str) -> Tegrastats:
    """Read what can be read; a line that says nothing gives nothing."""
    ram, swap = _pair(_RAM, line), _pair(_SWAP, line)
    gpu, emc = _pair(_GPU, line), _pair(_EMC, line)
    cores = _cores(line)
    loads = [load for load in cores or [] if load is not None]
    zones = _TEMPERATURE.findall(line)
    names = temperatures.distinct([temperatures.zone(name) for name, _ in zones])
    return Tegrastats(
        ram_used_mb=ram[0],
        ram_total_mb=ram[1],
        swap_used_mb=swap[0],
        swap_total_mb=swap[1],
        cpu_online=None if cores is None else len(loads),
        cpu_off=None if cores is None else len(cores) - len(loads),
        cpu_load_mean_percent=sum(loads) / len(loads) if loads else None,
        gpu_load_percent=gpu[0],
        gpu_freq_mhz=gpu[1],
        emc_load_percent=emc[0],
        emc_freq_mhz=emc[1],
        temperatures_c={
            name: temperatures.of_zone(kind, float(value))
            for name, (kind, value) in zip(names, zones, strict=True)
        },
        power_mw={name: int(now) for name, now in _RAIL.findall(line)},
    )


def _pair(pattern: re.Pattern[str], line: str) -> tuple[int | None, int | None]:
    found = pattern.search(line)
    if found is None:
        return None, None
    first, second = found.groups()
    return (int(first) if first else None, int(second) if second else None)


def _cores(line: str) -> list[int | None] | None:
    """The load of each core, ``None`` for one that is off."""
    found = _CPU.search(line)
    if found is None:
        return None
    loads = (_CORE.match(part.strip()) for part in found[1].split(","))
    return [int(load[1]) if load else None for load in loads]
