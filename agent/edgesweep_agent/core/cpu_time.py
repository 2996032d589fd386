"""Whose processor time it was: of the engine, of the agent with its client, or of somebody else.

The kernel counts a process's time for itself and, once a parent has waited for it, also as the
parent's "children". The sum of both over a tree never falls when a member ends, so that two looks
are enough, whatever lived and died in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .processes import Identity, Stat, family, parse_stat

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

_KTHREADD = 2
"""The parent of all kernel threads: drivers and reclaim work for whoever needs them."""
_NAMED = 3
_NAMED_FROM_S = 0.05


@dataclass(frozen=True, slots=True)
class Cores:
    """``/proc/stat``, all cores together, in ticks.

    Attributes:
        count: Cores online.
        busy_ticks: Spent in processes and kernel threads. Interrupts are left out: they belong to
            no process, and those of our own traffic are among them.
        stolen_ticks: Taken by the hypervisor for others.
    """

    count: int
    busy_ticks: int
    stolen_ticks: int


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one look; ``reaped_ticks`` is the time of the children it waited for."""

    name: str
    stat: Stat
    reaped_ticks: int

    @property
    def ticks(self) -> int:
        """Its own time and that of its children that have ended."""
        return self.stat.cpu_ticks + self.reaped_ticks


@dataclass(frozen=True, slots=True)
class Look:
    """Cores and processes at one instant."""

    cores: Cores
    processes: tuple[Process, ...]

    def members(self, known: AbstractSet[Identity]) -> frozenset[Identity]:
        """The living of ``known``, and all that descend from them."""
        stats = (process.stat for process in self.processes)
        return frozenset(stat.identity for stat in family(stats, known))


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Processor seconds between two looks.

    Attributes:
        engine_s, agent_s: ``None`` where the processes are not known.
        foreign_s: Of everybody else; ``None`` where the engine's processes are not known.
        stolen_s: Taken by the hypervisor for others.
        foreign_names: Who took most of it, as far as it is still there: ``name 1.2 s``, all
            of one name together.
    """

    cores: int
    engine_s: float | None
    agent_s: float
    foreign_s: float | None
    stolen_s: float
    foreign_names: tuple[str, ...] = ()


def parse_cores(text: str) -> Cores | None:
    """``None`` for what is no ``/proc/stat`` (proc(5)): user, nice, system ... steal."""
    lines = text.splitlines()
    words = lines[0].split() if lines else []
    if len(words) < 9 or words[0] != "cpu" or not all(word.isdigit() for word in words[1:9]):
        return None
    user, nice, system, _idle, _wait, _irq, _softirq, steal = map(int, words[1:9])
    count = sum(line.startswith("cpu") for line in lines) - 1
    return Cores(count, user + nice + system, steal)


def parse_process(text: str) -> Process | None:
    """One ``/proc/<pid>/stat``; ``None`` for what is none."""
    stat = parse_stat(text)
    if stat is None:
        return None
    head, _, tail = text.rpartition(")")
    reaped = tail.split()[13:15]
    return Process(head.partition("(")[2], stat, sum(map(int, reaped)))


def used(
    before: Look,
    after: Look,
    *,
    engine: AbstractSet[Identity] | None,
    agent: AbstractSet[Identity],
    tick_s: float,
) -> CpuUse:
    """Split the processor time between two looks.

    Args:
        before: The earlier look.
        after: The later one.
        engine: The engine's first processes; empty if it runs on another device, ``None`` if they
            are not known.
        agent: The agent's own, the parents of its load generator.
        tick_s: Seconds of a tick.
    """
    engines = _members(before, after, engine or frozenset())
    agents = _members(before, after, agent) - engines
    looks = (before, after)
    kernel = frozenset(
        one.stat.identity for look in looks for one in look.processes if _is_kernel(one.stat)
    )
    everybody = frozenset(one.stat.identity for look in looks for one in look.processes)
    engine_ticks = _grown(before, after, engines)
    agent_ticks = _grown(before, after, agents)
    busy = after.cores.busy_ticks - before.cores.busy_ticks
    # What is left holds those that came and went; but interrupts taken out of our own time hide
    # a few hundredths of a core of it, which the others' own times show.
    left = busy - engine_ticks - agent_ticks - _grown(before, after, kernel)
    foreign = max(left, _grown(before, after, everybody - engines - agents - kernel))
    known = engine is not None
    return CpuUse(
        cores=after.cores.count,
        engine_s=engine_ticks * tick_s if known else None,
        agent_s=agent_ticks * tick_s,
        foreign_s=max(0, foreign) * tick_s if known else None,
        stolen_s=max(0, after.cores.stolen_ticks - before.cores.stolen_ticks) * tick_s,
        foreign_names=_names(before, after, engines | agents | kernel, tick_s) if known else (),
    )


def _members(before: Look, after: Look, roots: AbstractSet[Identity]) -> frozenset[Identity]:
    """A tree at both looks; who was in it stays in it, and so do its unreaped dead."""
    early = before.members(roots)
    living = after.members(early | roots)
    pids = {one.pid for one in living}
    dead = (
        process.stat.identity
        for process in after.processes
        if not process.stat.alive and process.stat.parent in pids
    )
    return early | living | frozenset(dead)


def _grown(before: Look, after: Look, members: AbstractSet[Identity]) -> int:
    """Ticks by which a tree's time grew; whoever came in between counts in full."""
    return _ticks(after.processes, members) - _ticks(before.processes, members)


def _ticks(processes: Iterable[Process], members: AbstractSet[Identity]) -> int:
    return sum(process.ticks for process in processes if process.stat.identity in members)


def _is_kernel(stat: Stat) -> bool:
    return _KTHREADD in {stat.identity.pid, stat.parent}


def _names(
    before: Look, after: Look, ours: AbstractSet[Identity], tick_s: float
) -> tuple[str, ...]:
    early = {process.stat.identity: process.stat.cpu_ticks for process in before.processes}
    took: dict[str, float] = {}
    for one in after.processes:
        if one.stat.identity not in ours:
            ticks = one.stat.cpu_ticks - early.get(one.stat.identity, 0)
            took[one.name] = took.get(one.name, 0.0) + ticks * tick_s
    most = sorted(took.items(), key=lambda item: item[1], reverse=True)[:_NAMED]
    return tuple(f"{name} {seconds:.1f} s" for name, seconds in most if seconds >= _NAMED_FROM_S)
