"""Every sensor that we know, and those worth asking on one box."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import gpu_devfreq, nvml
from .cooling import CoolingDevices
from .cpu_temperature import ChipTemperatures
from .cpufreq import CpuFrequency
from .disk import Disk
from .drm import AmdGpu, IntelGpu
from .fan import Fan
from .files import Files, Missing
from .gpu_devfreq import GpuDevfreq
from .jtop import Jtop
from .meminfo import MemInfo
from .memory_clock import MemoryClock
from .nvml import Nvml, NvmlGpu
from .power_rails import PowerRails
from .pressure import Pressure
from .rapl import Rapl
from .raspberry import RaspberryVoltage
from .soctherm import OverCurrent
from .tegrastats import TegraStats
from .thermal import ThermalZones
from .vmstat import VmStat
from .x86_throttle import X86Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .base import Sensor


@dataclass(frozen=True, slots=True)
class Box:
    """What sensors are made of."""

    files: Files
    nvml: Nvml | Missing
    clock: Callable[[], float]
    folder: Path


SENSORS: dict[str, Callable[[Box], Sensor]] = {
    "power_rails": lambda box: PowerRails(box.files),
    "rapl": lambda box: Rapl(box.files),
    "nvml_power": lambda box: NvmlGpu(
        box.nvml, name="nvml_power", fields=nvml.POWER_FIELDS, fast=True
    ),
    "meminfo": lambda box: MemInfo(box.files),
    "vmstat": lambda box: VmStat(box.files),
    "pressure": lambda box: Pressure(box.files),
    "thermal": lambda box: ThermalZones(box.files),
    "chip_temperature": lambda box: ChipTemperatures(box.files),
    "cpufreq": lambda box: CpuFrequency(box.files),
    "gpu": lambda box: GpuDevfreq(box.files, with_load=_sysfs_has_load(box)),
    "nvml": lambda box: NvmlGpu(box.nvml, name="nvml", fields=_nvml_fields(box)),
    "amdgpu": lambda box: AmdGpu(box.files),
    "intel_gpu": lambda box: IntelGpu(box.files),
    "memory_clock": lambda box: MemoryClock(box.files),
    "soctherm": lambda box: OverCurrent(box.files),
    "cooling": lambda box: CoolingDevices(box.files),
    "x86_throttle": lambda box: X86Throttle(box.files),
    "raspberry_voltage": lambda box: RaspberryVoltage(box.files),
    "fan": lambda box: Fan(box.files),
    "disk": lambda box: Disk(box.folder),
    "jtop": lambda box: Jtop(box.files, clock=box.clock),
    "tegrastats": lambda box: TegraStats(box.files, clock=box.clock),
}
"""The engine's processes are no part of a box: :class:`~.processes.EngineProcesses`."""

PROGRAMS = frozenset({"jtop", "tegrastats"})
"""Sensors that start a program, whose first value comes seconds later."""


def all_sensors(
    root: Path = Path("/"),
    *,
    files: Files | None = None,
    library: Nvml | Missing | None = None,
    clock: Callable[[], float] = time.monotonic,
    folder: Path | None = None,
    without: Iterable[str] = (),
) -> list[Sensor]:
    """A sensor for every source; one whose hardware is not here says so when it is read.

    Args:
        root: The box's files.
        files: How to read them, in place of ``root``.
        library: NVML; looked for on this machine if not given.
        clock: Monotonic seconds.
        folder: Where the agent keeps what it measured, for the space left; ``root`` if not given.
        without: Names to leave out, such as :data:`PROGRAMS`.
    """
    files = files or Files(root, clock=clock)
    box = Box(files, nvml.host(files) if library is None else library, clock, folder or files.root)
    left_out = set(without)
    return [make(box) for name, make in SENSORS.items() if name not in left_out]


def close_all(sensors: Iterable[Sensor]) -> None:
    """End every program that a sensor has started."""
    for sensor in sensors:
        if isinstance(sensor, Jtop | TegraStats):
            sensor.close()


def _sysfs_has_load(box: Box) -> bool:
    return gpu_devfreq.has_load(box.files) or isinstance(box.nvml, Missing)


def _nvml_fields(box: Box) -> tuple[nvml.Field, ...]:
    """All, but for a GPU of the chip those that sysfs does not have: one name, one source."""
    if not gpu_devfreq.node(box.files):
        return nvml.FIELDS
    wanted = {"gpu_memory_total", "gpu_memory_used"}
    if not _sysfs_has_load(box):
        wanted.add("gpu_load")
    return tuple(field for field in nvml.FIELDS if field.name in wanted)
