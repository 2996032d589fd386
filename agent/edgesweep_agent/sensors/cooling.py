"""Cooling devices of the kernel: throttle alerts of NVIDIA's chips, and clamped clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.chip_names import slug

from .readings import nothing, numbered, of_file

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_ALERTS = "-alert"
_CLAMPS = ("cpufreq-", "devfreq-")


class CoolingDevices:
    """``throttle_alert_cpu`` ... are 1 while the chip throttles.

    Only the types that end in ``-alert`` mean throttling; ``cpufreq-*`` and ``devfreq-*`` above 0
    are clamps of a clock; a fan that turns is normal operation and left out.
    """

    name = "cooling"
    fast = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Reading]:
        """The state of each alert and clamp."""
        folders = self._files.names("sys/class/thermal", r"cooling_device\d+")
        kinds = [(path, self._files.text(f"{path}/type")) for path in folders]
        kept = [(path, name) for path, kind in kinds if (name := _name(kind))]
        if not kept:
            return nothing("throttle_alert", "1", "no throttle alert or clamp on this box")
        names = numbered([name for _, name in kept])
        return [
            of_file(self._files, name, "1", f"{path}/cur_state")
            for name, (path, _) in zip(names, kept, strict=True)
        ]


def _name(kind: str) -> str:
    if kind.endswith(_ALERTS):
        part = kind.removesuffix("-alert").removesuffix("-throttle")
        return f"throttle_alert_{slug(part).replace('-', '_')}"
    word = slug(kind).replace("-", "_")
    return f"clamp_{word}" if kind.lower().startswith(_CLAMPS) else ""
