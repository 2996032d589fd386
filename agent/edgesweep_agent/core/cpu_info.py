"""Reads ``/proc/cpuinfo`` and the kernel's lists of processors."""

from __future__ import annotations

from . import chip_names
from .hardware_class import Cpu


def parse(text: str, present: int) -> Cpu:
    """The processor; ``present`` of ``/sys/devices/system/cpu/present`` wins where it is known.

    Arm kernels before JetPack 5 give a ``model name`` that says nothing (ARMv8 Processor rev 3).
    """
    fields: dict[str, str] = {}
    cores: list[str] = []
    listed = 0
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        listed += key == "processor"
        fields.setdefault(key, value)
        if key == "CPU part":
            core = chip_names.arm_core(fields.get("CPU implementer", ""), value)
            cores += [] if core in cores else [core]
    name = fields.get("model name", "")
    return Cpu(
        architecture="x86" if "vendor_id" in fields else "arm" if cores else "",
        family=fields.get("cpu family", ""),
        model=fields.get("model", ""),
        name="" if name.startswith("ARMv") else name,
        cores=tuple(cores),
        present=present or listed,
        revision=fields.get("Revision", "").lower(),
        virtual="hypervisor" in fields.get("flags", "").split(),
    )


def count(text: str) -> int:
    """``0-3,8`` is five processors; 0 for what is no such list."""
    total = 0
    for part in text.replace(" ", ",").split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit():
            total += int(last) - int(first) + 1 if last.isdigit() else 1
    return total
