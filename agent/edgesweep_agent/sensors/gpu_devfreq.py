"""GPUs that are part of the chip and scaled by devfreq: Jetson and RK3588."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .files import Missing, absent, failed
from .readings import nothing, of_file, reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_FOLDER = "sys/class/devfreq"
_GPUS = r"[0-9a-f]+\.(?:gpu|ga10b|gv11b|gp10b|mali)|gpu-gpc-0"
_LOADS = (
    "sys/devices/platform/gpu.0/load",
    "sys/devices/gpu.0/load",
)
"""JetPack 6 and later, and 4 and 5; the device under the devfreq node is asked first."""


def node(files: Files) -> str:
    """The devfreq folder of the GPU; "" where there is none. Its name differs by release."""
    return next(iter(files.names(_FOLDER, _GPUS)), "")


def has_load(files: Files) -> bool:
    """Whether the kernel tells the load of this GPU; Thor's does not."""
    path = node(files)
    return any(files.has(place) for place in (f"{path}/device/load", f"{path}/load", *_LOADS))


class GpuDevfreq:
    """``gpu_load``, ``gpu_frequency``, and the clock's cap and floor.

    Args:
        files: The box.
        with_load: Off where another sensor has the load.
    """

    name = "gpu"
    fast = False

    def __init__(self, files: Files, *, with_load: bool = True) -> None:
        self._files = files
        self._with_load = with_load

    def read(self) -> list[Reading]:
        """Looked up anew each time: a driver can come after the agent."""
        path = node(self._files)
        if not path:
            return nothing("gpu_frequency_cap", "Hz", "no GPU of the chip under devfreq")
        load = [reading("gpu_load", "percent", self._load(path))] if self._with_load else []
        return [
            *load,
            of_file(self._files, "gpu_frequency", "Hz", f"{path}/cur_freq"),
            of_file(self._files, "gpu_frequency_cap", "Hz", f"{path}/max_freq"),
            of_file(self._files, "gpu_frequency_floor", "Hz", f"{path}/min_freq"),
        ]

    def _load(self, path: str) -> float | Missing:
        for place in (f"{path}/device/load", *_LOADS):
            found = self._files.number(place)
            if isinstance(found, int):
                return found / 10
        text = self._files.read(f"{path}/load")
        if isinstance(text, Missing):
            return absent("this GPU has no load file: NVML has it on Thor (extra nvidia)")
        percent = re.match(r"(\d+)@\d+Hz", text)
        return float(percent[1]) if percent else failed(f"/{path}/load: {text[:40]!r} is no load")
