"""Energy counters of x86 processors (RAPL; AMD's have the same names)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core.chip_names import slug

from .files import Missing, failed
from .readings import nothing, numbered, reading

if TYPE_CHECKING:
    from .base import Reading
    from .files import Files

_DENIED = (
    "only root may read it since Linux 5.10 (CVE-2020-8694): give the unit "
    "AmbientCapabilities=CAP_DAC_READ_SEARCH, or the agent's group the right by a udev rule "
    "(a chmod is lost at the next boot)"
)


class Rapl:
    """``energy_package_0`` and its parts, joules since the agent's start of the counter.

    The counter wraps (after 67 minutes at 65 W): a step back is one turn of
    ``max_energy_range_uj``, so it must be read more often than that. Package power is not the
    box's: no drive, no loss of the supply, on small chips no memory.
    """

    name = "rapl"
    fast = True

    def __init__(self, files: Files) -> None:
        self._files = files
        self._last: dict[str, int] = {}
        self._turns_uj: dict[str, int] = {}

    def read(self) -> list[Reading]:
        """One counter a zone; ``intel-rapl-mmio`` counts the same package and is left out."""
        zones = self._files.names("sys/class/powercap", r"intel-rapl:\d+(:\d+)?")
        if not zones:
            return nothing("energy_package_0", "J", "no RAPL on this box")
        kinds = [self._files.text(f"{path}/name") for path in zones]
        names = numbered([f"energy_{slug(kind).replace('-', '_')}" for kind in kinds])
        return [
            reading(
                name,
                "J",
                self._microjoules(path),
                scale=1e-6,
                boundary="package" if kind.startswith("package") else "",
            )
            for path, kind, name in zip(zones, kinds, names, strict=True)
        ]

    def _microjoules(self, path: str) -> int | Missing:
        now = self._files.number(f"{path}/energy_uj")
        if isinstance(now, Missing):
            denied = "only root" in now.reason and path.count(":") == 1
            return failed(f"/{path}/energy_uj: {_DENIED}") if denied else now
        if now < self._last.get(path, now):
            turn = self._files.number(f"{path}/max_energy_range_uj")
            if isinstance(turn, Missing):
                return turn
            self._turns_uj[path] = self._turns_uj.get(path, 0) + turn
        self._last[path] = now
        return now + self._turns_uj.get(path, 0)
