"""The kernel's text tables: vmstat, pressure, buddyinfo."""

from __future__ import annotations

import re

_PAGE_BYTES = 4096


def counters(text: str) -> dict[str, int]:
    """``name value`` a line: ``/proc/vmstat``, ``memory.events``, ``memory.stat``."""
    return {key: int(value) for key, value in re.findall(r"(?m)^(\w+) (\d+)\s*$", text)}


def pressure(text: str) -> dict[str, float]:
    """Seconds stalled since boot, by ``some`` and ``full`` (``/proc/pressure/*``).

    Totals, since the kernel's own averages span 10 s and more.
    """
    found = re.findall(r"(?m)^(some|full) .*\btotal=(\d+)", text)
    return {kind: int(us) / 1e6 for kind, us in found}


def largest_free_block(text: str, page_bytes: int = _PAGE_BYTES) -> int | None:
    """Bytes of the largest free block in ``/proc/buddyinfo``; ``None`` for no such table.

    A GPU driver that needs contiguous memory can fail while MemAvailable is large.
    """
    orders = [
        order
        for line in re.findall(r"(?m)^Node .*zone\s+\S+\s+([\d ]+)$", text)
        for order, free in enumerate(line.split())
        if free != "0"
    ]
    return page_bytes << max(orders) if orders else None
