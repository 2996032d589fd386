"""The memory before a start and after a stop, and how long it took to come back."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import psutil

from edgesweep_agent.core.memory_return import Free, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep_agent.core.memory_return import MemoryReturn

WAIT_S = 5.0
"""The kernel frees what a dead process had at once; drivers may take a moment."""
_LOOK_AGAIN_S = 0.1


def free_now() -> Free:
    """The machine's memory at this moment."""
    memory = psutil.virtual_memory()
    return Free(
        available_bytes=memory.available,
        file_cache_bytes=memory.cached + memory.buffers,
        low_watermark_bytes=_low_watermark(),
        own_bytes=psutil.Process().memory_info().rss,
    )


async def came_back(
    before: Free, *, wait_s: float = WAIT_S, now: Callable[[], Free] = free_now
) -> MemoryReturn:
    """Wait until memory is as it was before a start, or until the wait is over."""
    stopped = time.monotonic()
    while True:
        found = judge(before, now(), time.monotonic() - stopped)
        if found.complete or found.waited_s >= wait_s:
            return found
        await anyio.sleep(_LOOK_AGAIN_S)


def _low_watermark() -> int:
    """Pages that the kernel keeps free, all zones together, in bytes."""
    with suppress(OSError, ValueError):
        lines = Path("/proc/zoneinfo").read_text().splitlines()
        pages = (int(line.split()[1]) for line in lines if line.strip().startswith("low "))
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0
