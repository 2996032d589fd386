"""What an engine takes of the device's memory, the weights that it maps included."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from edgesweep_agent.sensors.processes import EngineProcesses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from edgesweep_agent.sensors.files import Files


class Footprint:
    """The memory of an engine's processes; where it is no process's, what the device lost.

    On a module whose GPU shares the memory its allocations are in no process, but gone from what
    is available, and so is what other programs took meanwhile. Mapped weights are in a process,
    and not gone.

    Args:
        files: The device's files.
        pids: The engine's first processes; none where they are not known.
        before_bytes: What was available before it was started; ``None`` if it was not we who did.
        is_shared: A GPU takes from the same memory.
        gpu: Asks what GPUs with memory of their own have lost to it; ``None`` where none holds
            anything of it. Their allocators give nothing back: what is taken is the most that was.
    """

    def __init__(
        self,
        files: Files,
        pids: Iterable[int] = (),
        before_bytes: int | None = None,
        *,
        is_shared: bool = False,
        gpu: Callable[[], int | None] | None = None,
    ) -> None:
        self._is_shared = is_shared
        self._engines = [EngineProcesses(files, pid, clock=time.monotonic) for pid in sorted(pids)]
        self._before = before_bytes
        self._gpu = gpu

    def taken_bytes(self, available_bytes: int | None) -> int | None:
        """What the engine takes while so much is available; ``None`` where nothing tells."""
        host = self._host_bytes(available_bytes)
        if self._gpu is None or host is None:
            return host
        there = self._gpu()
        return None if there is None else host + there

    def _host_bytes(self, available_bytes: int | None) -> int | None:
        told = {"engine_private": 0.0, "engine_mapped": 0.0}
        known = bool(self._engines)
        for engine in self._engines:
            for reading in engine.read():
                if reading.name in told:
                    known = known and reading.value is not None
                    told[reading.name] += reading.value or 0.0
        lost = None
        if self._before is not None and available_bytes is not None:
            lost = max(0, self._before - available_bytes)
        if not known:
            return lost
        private = max(told["engine_private"], (lost or 0) if self._is_shared else 0)
        return round(private + told["engine_mapped"])
