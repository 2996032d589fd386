"""jetson-stats as a second opinion, from a process of its own; sysfs is the source.

Its service starts other programs on every tick, has died under the load of an engine (#721) and
answers in other shapes after an update: nothing here waits for it or depends on it.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from edgesweep_agent.core import jtop_values

from .child import LineChild
from .files import Missing, absent, failed
from .readings import nothing, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .base import Reading
    from .files import Files

COMMAND = (sys.executable, "-m", "edgesweep_agent.sensors.jtop_child")
SOCKET = "run/jtop.sock"


class Jtop:
    """``jtop_gpu_load`` ..., or one absent ``jtop_gpu_load`` with the reason.

    Args:
        files: To see whether there is a service at all.
        clock: Monotonic seconds.
        command: The process that talks to it.
        installed: Whether jetson-stats can be imported.
    """

    name = "jtop"
    fast = False

    def __init__(
        self,
        files: Files,
        *,
        clock: Callable[[], float],
        command: Sequence[str] = COMMAND,
        installed: Callable[[], bool] = lambda: find_spec("jtop") is not None,
    ) -> None:
        self._files = files
        self._installed = installed
        self._child = LineChild("jtop", command, clock=clock)

    def read(self) -> list[Reading]:
        """What the last line says."""
        if not self._files.has(SOCKET):
            self._child.close()
            return nothing("jtop_gpu_load", "percent", f"no jtop service (/{SOCKET})")
        if not self._installed():
            reason = "jetson-stats is not installed: pip install 'edgesweep[jetson]'"
            return nothing("jtop_gpu_load", "percent", reason)
        values = _values(self._child.latest())
        if isinstance(values, Missing):
            return [reading("jtop_gpu_load", "percent", values)]
        return [
            reading(
                f"jtop_{name}",
                jtop_values.unit(name),
                absent("jtop does not say") if value is None else value,
            )
            for name, value in values.items()
        ]

    def close(self) -> None:
        """End the process."""
        self._child.close()


def _values(line: str | Missing) -> dict[str, float | None] | Missing:
    if isinstance(line, Missing):
        return line
    try:
        told = json.loads(line)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return failed(f"jtop: {line[:80]!r} is no reading")
    return failed(f"jtop: {told['error']}") if "error" in told else told
