"""What the memory of a board is sold as, from what its kernel has left of it."""

from __future__ import annotations

import math

_RAM_GIB = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_GPU_GIB = (1, 2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 192)
_KEPT = 0.80
"""A kernel reports 84 to 98 % of what is soldered on; the rest is firmware and carve-outs."""


def ram_gib(total_bytes: int) -> int:
    """Nominal GiB of a board: MemTotal differs between two releases of one kernel.

    The smallest size sold that is not under the total, if the total is at least 80 % of it; else
    (an odd virtual machine, a large carve-out for graphics) the total rounded up.
    """
    return _nominal(total_bytes, _RAM_GIB)


def gpu_gib(total_bytes: int) -> int:
    """Nominal GiB of a graphics card."""
    return _nominal(total_bytes, _GPU_GIB)


def _nominal(total_bytes: int, sizes: tuple[int, ...]) -> int:
    gib = total_bytes / 2**30
    for size in sizes:
        if size >= gib:
            return size if gib / size >= _KEPT else math.ceil(gib)
    return math.ceil(gib)
