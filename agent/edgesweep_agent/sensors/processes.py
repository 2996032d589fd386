"""Memory and processor time of an engine: its process and all that descend from it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep_agent.core import processes

from .base import State
from .files import Missing, absent
from .readings import reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep_agent.core.processes import Identity, Rollup, Stat

    from .base import Reading
    from .files import Files

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_NAMES = {
    "engine_rss": "bytes",
    "engine_private": "bytes",
    "engine_mapped": "bytes",
    "engine_cpu": "percent",
    "engine_processes": "1",
}


@dataclass(frozen=True, slots=True)
class EngineExit:
    """The engine's process is gone: when that was seen, and what it had used before."""

    at_s: float
    last: tuple[Reading, ...]


class EngineProcesses:
    """``engine_rss``, ``engine_private``, ``engine_mapped``, ``engine_cpu``, ``engine_processes``.

    ``engine_private`` is what it has to itself; ``engine_mapped`` is mostly weights that the
    kernel can drop; RSS counts both. GPU allocations of a Jetson are in none of them.
    A process is its number and its start, so a stranger with the number of a dead engine is
    never taken for it. ``engine_cpu`` (100 is one core) has no first value.

    Args:
        files: The box.
        pid: The engine's first process.
        clock: Monotonic seconds.
    """

    name = "engine_processes"
    fast = False

    def __init__(self, files: Files, pid: int, *, clock: Callable[[], float]) -> None:
        self._files = files
        self._pid = pid
        self._clock = clock
        self._root: Identity | None = None
        self._family: frozenset[Identity] = frozenset()
        self._ticks: dict[Identity, int] | None = None
        self._read_s = 0.0
        self._last: tuple[Reading, ...] = ()
        self.exited: EngineExit | None = None

    def read(self) -> list[Reading]:
        """What the family uses now; absent from the moment that its first process is gone."""
        if self.exited is not None:
            return self._absent("the engine has ended")
        stats = self._stats()
        self._root = self._root or next(
            (s.identity for s in stats if s.identity.pid == self._pid), None
        )
        if self._root is None:
            return self._absent(f"no process {self._pid}")
        family = processes.family(stats, self._family | {self._root})
        if self._root not in {stat.identity for stat in family}:
            self.exited = EngineExit(self._clock(), self._last)
            return self._absent("the engine has ended")
        self._family = frozenset(stat.identity for stat in family)
        found = self._readings(family)
        self._last = tuple(found)
        return found

    def _stats(self) -> list[Stat]:
        texts = (self._files.text(f"{path}/stat") for path in self._files.names("proc", r"\d+"))
        return [stat for text in texts if (stat := processes.parse_stat(text)) is not None]

    def _readings(self, family: list[Stat]) -> list[Reading]:
        rollups = [self._rollup(stat) for stat in family]
        private, mapped = _sums(rollups)
        return [
            reading("engine_rss", "bytes", sum(s.rss_pages for s in family), scale=_PAGE_BYTES),
            reading("engine_private", "bytes", private),
            reading("engine_mapped", "bytes", mapped),
            reading("engine_cpu", "percent", self._percent(family)),
            reading("engine_processes", "1", len(family)),
        ]

    def _rollup(self, stat: Stat) -> Rollup | Missing:
        text = self._files.read(f"proc/{stat.identity.pid}/smaps_rollup")
        if isinstance(text, Missing):
            return text
        return processes.parse_rollup(text) or absent("this kernel does not split Pss (5.4 does)")

    def _percent(self, family: list[Stat]) -> float | Missing:
        """Of one core, since the last read; the first has nothing to compare with."""
        before, since_s = self._ticks, self._clock() - self._read_s
        self._ticks = {stat.identity: stat.cpu_ticks for stat in family}
        self._read_s = self._clock()
        if before is None or since_s <= 0:
            return absent("the first look has nothing to compare with")
        return 100 * processes.cpu_ticks_since(before, family) * _TICK_S / since_s

    def _absent(self, why: str) -> list[Reading]:
        return [reading(name, unit, absent(why)) for name, unit in _NAMES.items()]


def _sums(rollups: list[Rollup | Missing]) -> tuple[int | Missing, int | Missing]:
    """Private and mapped bytes; a worker that has just ended is left out, a refusal is not."""
    known = [one for one in rollups if not isinstance(one, Missing)]
    missing = [one for one in rollups if isinstance(one, Missing)]
    refused = next((one for one in missing if one.state is State.FAILED), None)
    if refused is None and missing and not known:
        refused = missing[0]
    if refused is not None:
        return refused, refused
    return sum(one.private_bytes for one in known), sum(one.mapped_bytes for one in known)
