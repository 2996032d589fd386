"""The device under a sweep: its memory and its sensors, behind one root."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from edgesweep_agent import device, memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep_agent.core.available import Available
    from edgesweep_agent.sensors.base import Sensor
    from edgesweep_agent.sensors.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Box:
    """What a sweep asks of the device.

    Attributes:
        root: Where ``proc`` and ``sys`` are.
        gpu: Whether engines compute on a GPU, and whether that has memory of its own.
        sensors: All that there are; read by the sampler and watched for throttling.
        sampler: Power and temperature over time; ``None`` where nobody samples.
    """

    root: Path = Path("/")
    gpu: Literal["none", "discrete", "unified"] = "none"
    sensors: Sequence[Sensor] = field(default=())
    sampler: Sampler | None = None

    def available(self) -> Available:
        """Memory that an engine started now could take."""
        return memory.available(root=self.root)

    def caps(self) -> str:
        """The performance state now: what it was may change under a sweep."""
        return device.describe("", {}, root=self.root).performance_state

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
