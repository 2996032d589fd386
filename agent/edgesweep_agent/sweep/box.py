"""The device under a sweep: its memory and its sensors, behind one root."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from edgesweep_agent import device, memory
from edgesweep_agent.core import energy
from edgesweep_agent.core.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgesweep_agent.core.available import Available
    from edgesweep_agent.core.gpu_memory import Gpu
    from edgesweep_agent.sensors.base import Sensor
    from edgesweep_agent.sensors.sampler import Sampler


_IDLE_S = 2.0
_EDGE_S = 0.15
"""Energy is interpolated at a window's edges, and needs a reading beyond each."""


@dataclass(frozen=True, slots=True)
class Box:
    """What a sweep asks of the device.

    Attributes:
        root: Where ``proc`` and ``sys`` are.
        gpu: Whether engines compute on a GPU, and whether that has memory of its own.
        gpus: Asks for the GPUs with memory of their own, and what each has free now.
        sensors: All that there are; read by the sampler and watched for throttling.
        sampler: Power and temperature over time; ``None`` where nobody samples.
    """

    root: Path = Path("/")
    gpu: Literal["none", "discrete", "unified"] = "none"
    gpus: Callable[[], tuple[Gpu, ...]] = tuple
    sensors: Sequence[Sensor] = field(default=())
    sampler: Sampler | None = None

    def available(self, *, reused_bytes: int = 0) -> Available:
        """Memory that an engine started now could take.

        Args:
            reused_bytes: What it maps, which may be in the file cache already.
        """
        return memory.available(root=self.root, reused_bytes=reused_bytes)

    def caps(self) -> str:
        """The performance state now: what it was may change under a sweep."""
        return device.describe("", {}, root=self.root).performance_state

    async def idle_w(self) -> float | None:
        """Mean power over two quiet seconds; ``None`` where nothing measures power."""
        if self.sampler is None or not self.sampler.power(0, time.monotonic_ns()):
            return None
        self.sampler.fast(True)
        await anyio.sleep(_EDGE_S)
        start_ns = time.monotonic_ns()
        await anyio.sleep(_IDLE_S)
        window = Window(start_ns, time.monotonic_ns())
        await anyio.sleep(_EDGE_S)
        self.sampler.fast(False)
        return energy.best(self.sampler.power(window.start_ns, window.end_ns), window).mean_w

    def temperature_c(self) -> float | None:
        """The hottest zone now."""
        if self.sampler is None:
            return None
        hot = [
            reading.value
            for reading in self.sampler.latest()
            if reading.name.startswith("temperature_") and reading.value is not None
        ]
        return max(hot, default=None)
