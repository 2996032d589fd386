"""NVIDIA's ``tegrastats`` as a second opinion where jtop is not: what sysfs keeps for root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_agent.core import tegrastats
from edgesweep_agent.core.rails import rail_name

from .child import LineChild
from .files import Missing, absent
from .readings import nothing, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .base import Reading
    from .files import Files

PROGRAM = "usr/bin/tegrastats"


class TegraStats:
    """``tegrastats_emc_load`` and the like.

    Args:
        files: To see whether the program is there.
        clock: Monotonic seconds.
        command: The program, with a line a second.
    """

    name = "tegrastats"
    fast = False

    def __init__(
        self,
        files: Files,
        *,
        clock: Callable[[], float],
        command: Sequence[str] = (f"/{PROGRAM}", "--interval", "1000"),
    ) -> None:
        self._files = files
        self._child = LineChild("tegrastats", command, clock=clock)

    def read(self) -> list[Reading]:
        """What the last line says."""
        if not self._files.has(PROGRAM):
            return nothing("tegrastats_emc_load", "percent", f"no /{PROGRAM}")
        line = self._child.latest()
        if isinstance(line, Missing):
            return [reading("tegrastats_emc_load", "percent", line)]
        told = tegrastats.parse(line)
        values: dict[str, tuple[str, float | None, float]] = {
            "emc_load": ("percent", told.emc_load_percent, 1.0),
            "gpu_load": ("percent", told.gpu_load_percent, 1.0),
            "cpu_load": ("percent", told.cpu_load_mean_percent, 1.0),
            **{
                f"temperature_{name}": ("C", value, 1.0)
                for name, value in told.temperatures_c.items()
            },
            **{f"power_{rail_name(name)}": ("W", mw, 1e-3) for name, mw in told.power_mw.items()},
        }
        return [
            reading(
                f"tegrastats_{name}",
                unit,
                absent("not in the line") if value is None else value,
                scale=scale,
            )
            for name, (unit, value, scale) in values.items()
        ]

    def close(self) -> None:
        """End the program."""
        self._child.close()
