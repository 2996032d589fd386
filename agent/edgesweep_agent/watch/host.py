"""One look at a device: processor time by process, and the kernel's counters of memory trouble."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_agent.core import kernel_counters
from edgesweep_agent.core.cpu_time import Cores, Look, parse_cores, parse_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from edgesweep_agent.core.processes import Identity
    from edgesweep_agent.sensors.files import Files

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_NO_CORES = Cores(0, 0, 0)


@dataclass(frozen=True, slots=True)
class HostLook:
    """What ``/proc`` said.

    Attributes:
        cpu: ``cpu.cores.count`` is 0 where ``/proc/stat`` cannot be read.
        vmstat: Counters since boot.
        stalled_s: Seconds since boot in which everything waited for memory; ``None`` where the
            kernel does not say (a Raspberry Pi's needs ``psi=1``).
    """

    mono_ns: int
    cpu: Look
    vmstat: Mapping[str, int]
    stalled_s: float | None

    def identities(self, pids: Iterable[int]) -> frozenset[Identity]:
        """Who these numbers are just now."""
        wanted = frozenset(pids)
        stats = (process.stat for process in self.cpu.processes)
        return frozenset(s.identity for s in stats if s.alive and s.identity.pid in wanted)

    def holder(self, roots: frozenset[Identity]) -> frozenset[Identity]:
        """Of a tree, the process with the most memory: the one that holds the weights."""
        members = self.cpu.members(roots)
        stats = (p.stat for p in self.cpu.processes if p.stat.identity in members)
        largest = max(stats, key=lambda stat: stat.rss_pages, default=None)
        return frozenset() if largest is None else frozenset({largest.identity})


def look(files: Files, mono_ns: int) -> HostLook:
    """Read it all: a few milliseconds for a hundred processes."""
    stats = (files.text(f"{path}/stat") for path in files.names("proc", r"\d+"))
    processes = tuple(one for text in stats if (one := parse_process(text)) is not None)
    pressure = kernel_counters.pressure(files.text("proc/pressure/memory"))
    return HostLook(
        mono_ns=mono_ns,
        cpu=Look(parse_cores(files.text("proc/stat")) or _NO_CORES, processes),
        vmstat=kernel_counters.counters(files.text("proc/vmstat")),
        stalled_s=pressure.get("full"),
    )
