"""Watches memory while an engine runs, and ends the engine before the kernel would.

A thread of its own looks 8 times a second, more often as the reserve comes near: it must not wait
for a busy event loop. Every file is opened once; a look is a few ``pread``s. By ``oom_score_adj``
the kernel's choice, should it come to that, is the engine and never the agent.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from edgesweep_agent import memory
from edgesweep_agent.core import available as core
from edgesweep_agent.core.pressure import Look, Pressure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from edgesweep_agent.core.pressure import GuardReport, Limits

ENGINE_FIRST = 1000
AGENT_LAST = -900
"""``oom_score_adj``: the kernel's first choice, and next to never (proc(5))."""
_READ_BYTES = 65536
_LAST_LOOK_S = 5.0
"""How long the end of a guard waits for a look that a driver holds up."""


class Watch:
    """A level under guard."""

    def __init__(self, pressure: Pressure) -> None:
        self._pressure = pressure

    def report(self) -> GuardReport:
        """The figures so far."""
        return self._pressure.report()


@asynccontextmanager
async def guard(
    limits: Limits,
    engine_pids: Sequence[int],
    on_breach: Callable[[str], object],
    *,
    root: Path = Path("/"),
    look: Callable[[], Look] | None = None,
    wait: Callable[[float], bool] | None = None,
) -> AsyncIterator[Watch]:
    """Watch for as long as the block runs; ``watch.report()`` tells what memory did.

    Args:
        limits: The reserve, and what spoils a level.
        engine_pids: The engine's processes; their cgroups are watched beside the whole machine.
        on_breach: Called once with the reason, from the guard's thread (from the caller's if the
            first look is under the reserve already): it has to end the engine at once, and to be
            safe there (``os.killpg``, ``loop.call_soon_threadsafe``).
        root: Where ``proc`` and ``sys`` are.
        look: Another source of figures.
        wait: Another clock: waits for so many seconds, true when the guard is to end.
    """
    pressure = Pressure(limits)
    stop = threading.Event()
    with (
        _oom_order(engine_pids, root, pressure.notes),
        closing(_Files(limits, engine_pids, root)) as files,
    ):
        see = look or files.look
        pause = wait or stop.wait
        _judge(pressure, see(), on_breach)
        thread = threading.Thread(
            target=_watch, args=(pressure, see, pause, on_breach), name="memory-guard", daemon=True
        )
        thread.start()
        try:
            yield Watch(pressure)
        finally:
            stop.set()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(thread.join, _LAST_LOOK_S)
            if look is None:
                pressure.observe(see())


def _watch(
    pressure: Pressure,
    see: Callable[[], Look],
    pause: Callable[[float], bool],
    on_breach: Callable[[str], object],
) -> None:
    while not pause(pressure.next_s()):
        _judge(pressure, see(), on_breach)


def _judge(pressure: Pressure, look: Look, on_breach: Callable[[str], object]) -> None:
    reason = pressure.observe(look)
    if reason is not None:
        # What is to be ended may just have ended by itself.
        with suppress(ProcessLookupError):
            on_breach(reason)


class _Files:
    """The kernel's files, kept open; one that is absent or goes away tells nothing."""

    def __init__(self, limits: Limits, pids: Sequence[int], root: Path) -> None:
        self._mapped = limits.mapped_bytes
        self._meminfo = _open(root / "proc/meminfo")
        self._vmstat = _open(root / "proc/vmstat")
        self._page = os.sysconf("SC_PAGE_SIZE")
        folders = (memory.cgroup_folders(root, pid) for pid in pids or [os.getpid()])
        found = [_Cgroup(root, *one) for one in dict.fromkeys(chain.from_iterable(folders))]
        self._cgroups = [cgroup for cgroup in found if cgroup.counts]

    def close(self) -> None:
        for file in (self._meminfo, self._vmstat):
            _close(file)
        for cgroup in self._cgroups:
            cgroup.close()

    def look(self) -> Look:
        meminfo = core.parse_meminfo(_read(self._meminfo))
        counters = core.parse_stat(_read(self._vmstat))
        cgroups = [found for cgroup in self._cgroups if (found := cgroup.read()) is not None]
        terms = [("MemAvailable", core.mem_available(meminfo, self._mapped))]
        terms += [(one.name, one.available_bytes(self._mapped)) for one, _ in cgroups]
        least = core.smallest(meminfo.get("MemTotal"), terms, "unknown")
        used = _host_used(meminfo)
        if cgroups:
            counters |= cgroups[0][1]
        limited = next((one for one, _ in cgroups if one.limit_bytes is not None), None)
        return Look(
            at_s=time.monotonic(),
            available_bytes=least.available_bytes,
            limited_by=least.limited_by,
            used_bytes=limited.used_bytes(self._mapped) if limited else used,
            swap_in_bytes=counters.get("pswpin", 0) * self._page,
            swap_used_bytes=meminfo.get("SwapTotal", 0) - meminfo.get("SwapFree", 0),
            refault_bytes=counters.get("workingset_refault_file", 0) * self._page,
            oom_kills=counters.get("oom_kill", 0),
        )


class _Cgroup:
    """One cgroup's files."""

    def __init__(self, root: Path, version: int, folder: str) -> None:
        path, names = root / folder.lstrip("/"), core.CGROUP_FILES[version]
        self._name, self._version = f"cgroup {folder}", version
        self._limits = [_open(path / name) for name in names.limits]
        self._usage, self._events, self._stat = (
            _open(path / name) for name in (names.usage, names.events, names.stat)
        )
        if not self.counts:
            self.close()

    @property
    def counts(self) -> bool:
        """Whether this cgroup counts memory at all."""
        return self._usage is not None

    def read(self) -> tuple[core.CgroupMemory, dict[str, int]] | None:
        """Its figures and its counters of kills and refaults; ``None`` once it is gone."""
        stat = core.parse_stat(_read(self._stat))
        limits = [_read(file) for file in self._limits]
        figures = core.cgroup_memory(self._name, self._version, limits, _read(self._usage), stat)
        if figures is None:
            return None
        counters = core.parse_stat(_read(self._events))
        refault = stat.get(core.CGROUP_FILES[self._version].prefix + "workingset_refault_file")
        if refault is not None:
            counters["workingset_refault_file"] = refault
        return figures, counters

    def close(self) -> None:
        """Let the files go."""
        for file in (*self._limits, self._usage, self._events, self._stat):
            _close(file)


def _host_used(meminfo: dict[str, int]) -> int | None:
    total, free = meminfo.get("MemTotal"), core.mem_available(meminfo)
    return None if total is None or free is None else total - free


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read(file: int | None) -> str:
    if file is None:
        return ""
    try:
        return os.pread(file, _READ_BYTES, 0).decode("utf-8", "replace")
    except OSError:
        return ""


def _close(file: int | None) -> None:
    if file is not None:
        os.close(file)


@contextmanager
def _oom_order(pids: Sequence[int], root: Path, notes: list[str]) -> Iterator[None]:
    """The engine goes first; the agent is spared where it may ask for that, until the end."""
    own = root / "proc/self/oom_score_adj"
    before = memory.read_text(own).strip()
    notes.extend(
        f"oom_score_adj of the engine's process {pid} stays as it is"
        for pid in _families(pids, root)
        if not _write(root / f"proc/{pid}/oom_score_adj", ENGINE_FIRST)
    )
    lowered = bool(pids and before) and _write(own, AGENT_LAST)
    try:
        yield
    finally:
        if lowered:
            _write(own, int(before))


def _families(pids: Sequence[int], root: Path) -> Iterator[int]:
    """The processes and all their children."""
    for pid in pids:
        yield pid
        for task in (root / f"proc/{pid}/task").glob("*/children"):
            yield from _families([int(word) for word in memory.read_text(task).split()], root)


def _write(path: Path, value: int) -> bool:
    try:
        path.write_text(f"{value}\n", encoding="ascii")
    except OSError:
        return False
    return True
