"""Who this device is: its hardware class, the caps that it runs under, boot, clock."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from pathlib import Path
from typing import Literal

from edgesweep.records import ClockQuality, Device
from edgesweep_agent.core.hardware_class import hardware_class, of_mac
from edgesweep_agent.core.performance_state import performance_state
from edgesweep_agent.sensors import nvml
from edgesweep_agent.sensors.attributes import attributes
from edgesweep_agent.sensors.board import board
from edgesweep_agent.sensors.caps import caps
from edgesweep_agent.sensors.files import Files, Missing

_TIME_ERROR = 5
"""adjtimex(2): the clock is not synchronised."""
_TIMEX_BYTES = 208


def describe(device_id: str, labels: dict[str, str], *, root: Path = Path("/")) -> Device:
    """The device as its files tell it now; never raises for what they lack."""
    if sys.platform == "darwin":
        return _mac(device_id, labels)
    files = Files(root)
    return describe_box(device_id, labels, files, nvml.host(files))


def _mac(device_id: str, labels: dict[str, str]) -> Device:
    """An Apple computer: its class is in sysctl, and it has none of Linux's files."""
    done = subprocess.run(["/usr/sbin/sysctl", "-a"], capture_output=True, text=True, check=False)
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    return Device(device_id, of_mac(told), attributes={"kernel": platform.release()}, labels=labels)


def describe_box(
    device_id: str, labels: dict[str, str], files: Files, library: nvml.Nvml | Missing
) -> Device:
    """The same with the reader and NVML given."""
    found = board(files, library)
    return Device(
        device_id=device_id,
        hardware_class=hardware_class(found),
        performance_state=performance_state(caps(files, library)),
        attributes=attributes(files, found, library),
        labels=labels,
    )


def gpu_kind(*, root: Path = Path("/")) -> Literal["none", "discrete", "unified"]:
    """Whether engines here compute on a GPU, and whether that has memory of its own."""
    files = Files(root)
    library = nvml.host(files)
    if not isinstance(library, Missing) and library.handles:
        sizes = [library.memory_bytes(at) for at in range(len(library.handles))]
        return "unified" if all(isinstance(size, Missing) for size in sizes) else "discrete"
    is_jetson = hardware_class(board(files, library)).startswith("jetson.")
    return "unified" if is_jetson else "none"


def boot_id(*, root: Path = Path("/")) -> str:
    """The kernel's id of this boot; empty where there is none."""
    return Files(root).text("proc/sys/kernel/random/boot_id")


def clock_quality() -> ClockQuality:
    """Whether something disciplines the wall clock, by the kernel's own word (adjtimex(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return ClockQuality.SYNCED if 0 <= state < _TIME_ERROR else ClockQuality.UNSYNCED
