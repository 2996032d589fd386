"""Whether the memory that a server took came back when it was stopped.

vLLM's engine processes can outlive their parent and hold the memory (vllm-project/vllm#25850),
and a driver may give it back late. A shortfall is a figure for the record: the next contender
would be measured with less.
"""

from __future__ import annotations

from dataclasses import dataclass

NOISE_BYTES = 64 << 20
"""What other programs take and give within the seconds of a start."""


@dataclass(frozen=True, slots=True)
class Free:
    """Memory of the machine at one moment.

    Attributes:
        available_bytes: ``MemAvailable``.
        file_cache_bytes: Page cache; it holds the pages of a model that was mapped.
        low_watermark_bytes: What the kernel keeps free, all zones together.
        own_bytes: What the agent itself has resident: its growth is no fault of the server.
    """

    available_bytes: int
    file_cache_bytes: int = 0
    low_watermark_bytes: int = 0
    own_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MemoryReturn:
    """What came back.

    Attributes:
        shortfall_bytes: Available before the start and not after the stop, less what page
            cache and agent explain; 0 when everything came back.
        waited_s: How long after the stop this was seen.
    """

    shortfall_bytes: int
    waited_s: float

    @property
    def complete(self) -> bool:
        """Whether all came back, within the noise of a machine that does other things."""
        return self.shortfall_bytes <= NOISE_BYTES


def judge(before: Free, after: Free, waited_s: float) -> MemoryReturn:
    """Compare the memory before a start with that after the stop."""
    missing = before.available_bytes - after.available_bytes
    missing -= max(0, _not_counted(after) - _not_counted(before))
    missing -= max(0, after.own_bytes - before.own_bytes)
    return MemoryReturn(max(0, missing), waited_s)


def _not_counted(free: Free) -> int:
    """Page cache that MemAvailable leaves out: half of it, at most the low watermark.

    Source: Linux ``mm/show_mem.c``, ``si_mem_available``.
    """
    return min(free.file_cache_bytes // 2, free.low_watermark_bytes)
