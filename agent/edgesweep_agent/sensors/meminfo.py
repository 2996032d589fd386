"""Memory and swap of the box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core import kernel_counters
from edgesweep_agent.core.available import parse_meminfo

from .files import absent
from .readings import reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_FIELDS = {
    "memory_total": "MemTotal",
    "memory_available": "MemAvailable",
    "memory_free": "MemFree",
    "memory_cached": "Cached",
}
_OPTIONAL = {"memory_cma_free": "CmaFree", "memory_nvmap": "NvMapMemUsed"}
"""Where the kernel has them: contiguous memory, and GPU allocations of a 4.9 Tegra kernel."""


class MemInfo:
    """What is left is ``memory_available``; MemFree counts the page cache as used."""

    name = "meminfo"
    fast = True

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Reading]:
        """Bytes; also of the largest free block, which a GPU driver can run out of first."""
        text = self._files.read("proc/meminfo")
        if not isinstance(text, str):
            return [reading(name, "bytes", text) for name in _FIELDS]
        told = parse_meminfo(text)
        found = [
            reading(name, "bytes", told.get(key, absent(f"/proc/meminfo has no {key}")))
            for name, key in {
                **_FIELDS,
                **{n: k for n, k in _OPTIONAL.items() if k in told},
            }.items()
        ]
        if "SwapTotal" in told and "SwapFree" in told:
            found.append(reading("swap_total", "bytes", told["SwapTotal"]))
            found.append(reading("swap_used", "bytes", told["SwapTotal"] - told["SwapFree"]))
        block = kernel_counters.largest_free_block(self._files.text("proc/buddyinfo"))
        if block is not None:
            found.append(reading("memory_largest_free_block", "bytes", block))
        return found
