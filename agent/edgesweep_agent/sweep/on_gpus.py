"""A managed contender whose model lies in the memory of GPUs: what those have left, and lose."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_agent import memory
from edgesweep_agent.core import gpu_memory
from edgesweep_agent.core.memory_return import Free
from edgesweep_agent.core.placement import placed
from edgesweep_agent.core.pressure import Limits, Look
from edgesweep_agent.guard import guard
from edgesweep_agent.launchers.memory import WAIT_S, came_back

from .gpu_use import gpu_use, kept_on_host

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from edgesweep_agent.core.available import Available
    from edgesweep_agent.core.gpu_memory import Gpu, GpuUse
    from edgesweep_agent.core.memory_return import MemoryReturn
    from edgesweep_agent.core.model_shape import ModelShape
    from edgesweep_agent.core.placement import LayerWeights, Placed
    from edgesweep_agent.core.verdict import Setup
    from edgesweep_agent.guard import Watch
    from edgesweep_agent.plan import ManagedSpec

    from .box import Box


@dataclass(frozen=True, slots=True)
class OnGpus:
    """The part of a contender that GPUs with memory of their own hold.

    Attributes:
        use: Which of them, and for what.
        weights: Of its GGUF; ``None`` where all weights go there.
        gpus: Asks NVML.
    """

    use: GpuUse
    weights: LayerWeights | None
    gpus: Callable[[], tuple[Gpu, ...]]

    def room(self) -> Available:
        """What it could take of them now."""
        return gpu_memory.pool(self.gpus(), self.use)

    def placed(self, setup: Setup, shape: ModelShape) -> Placed:
        """What it needs there, and of the host."""
        return placed(setup, shape, self.use, self.weights)

    @property
    def host_weight_bytes(self) -> int:
        """Weights that stay in the memory of the host."""
        return 0 if self.weights is None else self.weights.host_bytes(self.use.layers)

    def free_bytes(self) -> int | None:
        """What they have free, together; ``None`` if one does not tell."""
        return gpu_memory.free_bytes(self.gpus(), self.use)

    def taken_bytes(self, before_bytes: int | None) -> int | None:
        """What they lost since so much was free, to whomever; ``None`` if one does not tell."""
        now = self.free_bytes()
        return None if before_bytes is None or now is None else max(0, before_bytes - now)

    def is_unused(self, before_bytes: int | None, weights_bytes: int | None) -> bool:
        """Whether a start took less of them than half the weights that were to go there."""
        taken = self.taken_bytes(before_bytes)
        there = (weights_bytes or 0) - self.host_weight_bytes
        return taken is not None and taken < there // 2

    def guard(self, kill: Callable[[str], object]) -> AbstractAsyncContextManager[Watch]:
        """Ends the engine before one of them has less than the reserve left.

        A guard of its own beside that of the host: a driver that hangs must not hold that one up.
        """
        limits = Limits(reserve_bytes=gpu_memory.RESERVE_BYTES)
        return guard(limits, (), kill, look=self._look)

    async def came_back(
        self, before_bytes: int | None, *, wait_s: float = WAIT_S
    ) -> MemoryReturn | None:
        """Wait until as much is free as before the start; ``None`` where nothing tells."""
        if before_bytes is None or self.free_bytes() is None:
            return None

        def now() -> Free:
            # A GPU that stops answering meanwhile has kept nothing that we know of.
            free = self.free_bytes()
            return Free(before_bytes if free is None else free)

        return await came_back(Free(before_bytes), wait_s=wait_s, now=now)

    def _look(self) -> Look:
        least = gpu_memory.tightest(self.gpus(), self.use)
        return Look(time.monotonic(), least.available_bytes, least.limited_by)


def on_gpus(spec: ManagedSpec, box: Box) -> OnGpus | None:
    """What of a contender GPUs hold; ``None`` where host memory is the pool, as on a shared one.

    Raises:
        UsageError: the model cannot be read.
    """
    use = gpu_use(spec, box.gpus()) if box.gpu == "discrete" else None
    if use is None:
        return None
    weights = None
    if spec.engine != "vllm":
        weights = memory.layer_weights(spec.model, kept_on_host(spec))
    return OnGpus(use, weights, box.gpus)
