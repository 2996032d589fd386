"""Who this device is: its hardware class, the caps that it runs under, boot, clock."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from edgesweep.records import Device
from edgesweep_agent.core.hardware_class import hardware_class, of_mac
from edgesweep_agent.core.performance_state import performance_state
from edgesweep_agent.sensors import nvml
from edgesweep_agent.sensors.attributes import attributes
from edgesweep_agent.sensors.board import board
from edgesweep_agent.sensors.caps import caps
from edgesweep_agent.sensors.files import Files, Missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep_agent.core.gpu_memory import Gpu

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
    return gpu_kind_of(files, nvml.host(files))


def gpu_kind_of(
    files: Files, library: nvml.Nvml | Missing
) -> Literal["none", "discrete", "unified"]:
    """The same with the reader and NVML given: a GPU that was lost is none that shares memory."""
    if not isinstance(library, Missing) and library.handles:
        return "discrete" if library.gpus() else "unified"
    is_jetson = hardware_class(board(files, library)).startswith("jetson.")
    return "unified" if is_jetson else "none"


def gpus(*, root: Path = Path("/")) -> Callable[[], tuple[Gpu, ...]]:
    """Asks for the GPUs with memory of their own, and what each has free, whenever it is called."""
    library = nvml.host(Files(root))
    return tuple if isinstance(library, Missing) else library.gpus


def boot_id(*, root: Path = Path("/")) -> str:
    """The kernel's id of this boot; empty where there is none."""
    return Files(root).text("proc/sys/kernel/random/boot_id")


def clock_synced() -> bool:
    """Whether something disciplines the wall clock, by the kernel's own word (adjtimex(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    return 0 <= int(libc.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))) < _TIME_ERROR
