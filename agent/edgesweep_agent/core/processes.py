"""A process and its descendants in ``/proc``: who they are, and what they have used.

A process is its number and its start: the kernel gives a number out again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

_ZOMBIES = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for good; ``start_ticks`` is its start after boot (proc(5), field 22)."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Stat:
    """One ``/proc/<pid>/stat``."""

    identity: Identity
    parent: int
    alive: bool
    cpu_ticks: int
    rss_pages: int


@dataclass(frozen=True, slots=True)
class Rollup:
    """``smaps_rollup``: what a process has to itself, and what it maps of files.

    ``private_bytes`` is Pss_Anon + Pss_Shmem. ``mapped_bytes`` (Pss_File) is mostly weights that
    the kernel can drop; RSS counts both (ggml-org/llama.cpp#864).
    """

    private_bytes: int
    mapped_bytes: int


def parse_stat(text: str) -> Stat | None:
    """``None`` for what is no stat line. The name may hold spaces and brackets."""
    head, bracket, tail = text.rpartition(")")
    fields = tail.split()
    pid = head.partition(" ")[0]
    if not bracket or len(fields) < 22:
        return None
    try:
        return Stat(
            identity=Identity(int(pid), int(fields[19])),
            parent=int(fields[1]),
            alive=fields[0] not in _ZOMBIES,
            cpu_ticks=int(fields[11]) + int(fields[12]),
            rss_pages=int(fields[21]),
        )
    except ValueError:
        return None


def parse_rollup(text: str) -> Rollup | None:
    """``None`` where the kernel has no such split (before 5.4)."""
    parts = {key: int(kib) * 1024 for key, kib in re.findall(r"(?m)^(\w+):\s+(\d+) kB", text)}
    if "Pss_Anon" not in parts or "Pss_File" not in parts:
        return None
    return Rollup(parts["Pss_Anon"] + parts.get("Pss_Shmem", 0), parts["Pss_File"])


def family(stats: Iterable[Stat], known: AbstractSet[Identity]) -> list[Stat]:
    """The living of ``known`` and all that descend from them.

    A worker whose parent has died stays in the family; a stranger that got the number of a dead
    member does not enter it.
    """
    by_parent: dict[int, list[Stat]] = {}
    members: dict[Identity, Stat] = {}
    for stat in stats:
        by_parent.setdefault(stat.parent, []).append(stat)
        if stat.identity in known and stat.alive:
            members[stat.identity] = stat
    waiting = list(members.values())
    while waiting:
        for child in by_parent.get(waiting.pop().identity.pid, ()):
            if child.alive and child.identity not in members:
                members[child.identity] = child
                waiting.append(child)
    return list(members.values())


def cpu_ticks_since(before: Mapping[Identity, int], now: Iterable[Stat]) -> int:
    """Ticks used between two looks by those seen in both; a newcomer counts in full."""
    return sum(stat.cpu_ticks - before.get(stat.identity, 0) for stat in now)
