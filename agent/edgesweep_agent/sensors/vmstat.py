"""Signs that memory does not suffice: swapping, weights read again, kills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core import kernel_counters

from .files import absent
from .readings import reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_FIELDS = {
    "swap_in_pages": "pswpin",
    "swap_out_pages": "pswpout",
    "refault_file_pages": "workingset_refault_file",
    "oom_kills": "oom_kill",
}


class VmStat:
    """Counts since boot; zram counts as swap. A rising refault is weights evicted and re-read."""

    name = "vmstat"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Reading]:
        """Four counters, absent where this kernel does not count them."""
        text = self._files.read("proc/vmstat")
        if not isinstance(text, str):
            return [reading(name, "1", text) for name in _FIELDS]
        told = kernel_counters.counters(text)
        return [
            reading(name, "1", told.get(key, absent(f"this kernel's /proc/vmstat has no {key}")))
            for name, key in _FIELDS.items()
        ]
