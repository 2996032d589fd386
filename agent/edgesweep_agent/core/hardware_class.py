"""The name of what a box is made of: two boxes with one name may be compared.

Read from what cannot be changed: the device tree's ``compatible`` (before SMBIOS, which
NVIDIA's UEFI also has), installed memory by its bucket, the GPU, present cores. Clocks, modes
and limits are the performance state's. Releases, hosts and model texts are attributes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import chip_names, dmi, jetson
from .memory_size import gpu_gib, ram_gib

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Cpu:
    """The processor as ``/proc/cpuinfo`` has it.

    Attributes:
        architecture: ``x86``, ``arm`` or "".
        family, model: x86's numbers, as text.
        name: The marketing name; "" on most Arm kernels.
        cores: Arm core types, such as ``cortex-a78ae``.
        present: Logical processors soldered on, whether online or not.
        revision: The board's code on a Raspberry Pi.
        virtual: The processor says that a hypervisor runs it.
    """

    architecture: str = ""
    family: str = ""
    model: str = ""
    name: str = ""
    cores: tuple[str, ...] = ()
    present: int = 0
    revision: str = ""
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU by its driver's name, or by its PCI id (``igpu-8086:46d1``) where that is all."""

    name: str
    memory_bytes: int | None = None

    @property
    def key(self) -> str:
        """Its part of the class."""
        if self.memory_bytes is None:
            return self.name
        return f"{self.name}-{gpu_gib(self.memory_bytes)}g"


@dataclass(frozen=True, slots=True)
class Board:
    """What a box says of itself."""

    cpu: Cpu = field(default_factory=Cpu)
    memory_bytes: int = 0
    compatible: tuple[str, ...] = ()
    module_hints: tuple[str, ...] = ()
    dmi: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()
    virtual_machine: str = ""


def hardware_class(board: Board) -> str:
    """``jetson.tegra234.p3767-0005.8g.6c``: parts from the general to the particular."""
    parts = [*_platform(board), _memory(board), *_gpus(board.gpus)]
    if board.cpu.present:
        parts.append(f"{board.cpu.present}c")
    return ".".join(part for part in parts if part)


def of_mac(sysctl: Mapping[str, str]) -> str:
    """The class of a Mac: chip and model (a fanless one is another machine), memory, cores."""
    chip = chip_names.slug(sysctl.get("machdep.cpu.brand_string", "")).removeprefix("apple-")
    memory = int(sysctl.get("hw.memsize", "0"))
    cores = sysctl.get("hw.physicalcpu", "")
    parts = (
        "apple",
        chip,
        chip_names.slug(sysctl.get("hw.model", "")),
        f"{ram_gib(memory)}g" if memory else "",
        f"{cores}c" if cores else "",
    )
    return ".".join(part for part in parts if part)


def _platform(board: Board) -> tuple[str, ...]:
    if board.virtual_machine:
        return ("vm", *_processor(board.cpu))
    tegra = jetson.soc(board.compatible)
    if tegra:
        module = jetson.module(board.compatible, board.module_hints)
        return ("jetson", tegra, module or "unknown-module")
    if board.compatible:
        return _device_tree(board.compatible)
    return (*_processor(board.cpu), chip_names.slug(dmi.product(board.dmi)))


def _device_tree(compatible: tuple[str, ...]) -> tuple[str, ...]:
    maker, _, model = compatible[0].partition(",")
    chip = compatible[-1].rpartition(",")[2]
    if maker == "raspberrypi":
        return ("pi", chip_names.slug(chip), chip_names.slug(model))
    return ("arm", chip_names.slug(chip), chip_names.slug(f"{maker} {model}"))


def _processor(cpu: Cpu) -> tuple[str, ...]:
    if cpu.architecture == "x86":
        return ("x86", f"{cpu.family}-{cpu.model}", chip_names.cpu(cpu.name))
    return (cpu.architecture or "unknown", "+".join(cpu.cores) or chip_names.cpu(cpu.name))


def _memory(board: Board) -> str:
    """By the board's code on a Raspberry Pi (bits 20 to 22 of a new-style revision)."""
    if re.fullmatch(r"[0-9a-f]{6,8}", board.cpu.revision) and board.compatible:
        code = int(board.cpu.revision, 16)
        if code >> 23 & 1 and code >> 20 & 7 >= 2:
            return f"{2 ** ((code >> 20 & 7) - 2)}g"
    return f"{ram_gib(board.memory_bytes)}g" if board.memory_bytes else ""


def _gpus(gpus: tuple[Gpu, ...]) -> list[str]:
    keys = [gpu.key for gpu in gpus]
    return [
        key if keys.count(key) == 1 else f"{keys.count(key)}x{key}" for key in sorted(set(keys))
    ]
