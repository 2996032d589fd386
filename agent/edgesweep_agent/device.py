"""Who this device is, as far as every Linux says: processor, memory, kernel, boot, clock."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path

import psutil

from edgesweep.records import ClockQuality, Device

_TIME_ERROR = 5
"""adjtimex(2): the clock is not synchronised."""
_TIMEX_BYTES = 208


def describe(device_id: str, labels: dict[str, str], *, root: Path = Path("/")) -> Device:
    """The device with its hardware class: architecture, cores, memory bucket, processor."""
    cores = psutil.cpu_count(logical=True) or 0
    gib = round(psutil.virtual_memory().total / 2**30)
    cpu = _cpu_model(root / "proc/cpuinfo")
    return Device(
        device_id=device_id,
        hardware_class=f"{platform.machine()}-{cores}c-{gib}gib",
        attributes={
            "cpu_model": cpu,
            "cpu_cores": str(cores),
            "memory_bytes": str(psutil.virtual_memory().total),
            "kernel": platform.release(),
            "architecture": platform.machine(),
        },
        labels=labels,
    )


def boot_id(*, root: Path = Path("/")) -> str:
    """The kernel's id of this boot; empty where there is none."""
    path = root / "proc/sys/kernel/random/boot_id"
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


def clock_quality() -> ClockQuality:
    """Whether something disciplines the wall clock, by the kernel's own word (adjtimex(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return ClockQuality.SYNCED if 0 <= state < _TIME_ERROR else ClockQuality.UNSYNCED


def _cpu_model(cpuinfo: Path) -> str:
    if not cpuinfo.exists():
        return platform.processor()
    for line in cpuinfo.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model", "Hardware"}:
            return value.strip()
    return platform.processor()
