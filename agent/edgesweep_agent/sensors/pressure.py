"""Pressure stall information: time in which work waited for memory, processor or disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core import kernel_counters

from .files import Missing
from .readings import nothing, reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_OFF = (
    "this kernel has no pressure information, or has it off: psi=1 on its command line (a "
    "Raspberry Pi's kernel has it off; before 4.20 there is none)"
)


class Pressure:
    """``pressure_memory_full`` ...: seconds since boot in which some, or all, waited."""

    name = "pressure"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Reading]:
        """Totals, to be taken as differences over a window."""
        texts = {
            kind: self._files.read(f"proc/pressure/{kind}") for kind in ("memory", "cpu", "io")
        }
        if all(isinstance(text, Missing) for text in texts.values()):
            return nothing("pressure_memory_full", "s", _OFF)
        return [
            reading(f"pressure_{kind}_{share}", "s", seconds)
            for kind, text in texts.items()
            if isinstance(text, str)
            for share, seconds in kernel_counters.pressure(text).items()
        ]
