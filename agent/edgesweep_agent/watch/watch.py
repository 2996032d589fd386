"""The watcher of one level: looks before, during and after, and what they come to."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import anyio

from edgesweep_agent.core.cpu_time import used
from edgesweep_agent.core.evidence import Evidence, HostEvidence, of_scrapes
from edgesweep_agent.core.serverlog import jit_lines
from edgesweep_agent.core.steadiness import (
    WATCHED,
    SensorLook,
    clock_step_s,
    highest_temperature_c,
    throttled_share,
)
from edgesweep_agent.sensors.base import State
from edgesweep_agent.sensors.files import Files

from .clocks import both_clocks
from .host import PAGE_BYTES, TICK_S, look

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from edgesweep_agent.core.counters import Counters
    from edgesweep_agent.core.evidence import EngineEvidence
    from edgesweep_agent.core.processes import Identity
    from edgesweep_agent.core.steadiness import ClockLook
    from edgesweep_agent.sensors.base import Sensor

    from .host import HostLook
    from .listener import EnginePids

EVERY_S = 0.5
LOOKS_A_SCRAPE = 2
"""A scrape waits for the engine's loop, as a request does: seldom enough not to be a load."""
SETTLE_S = 2.0
"""How long an engine may take to finish what the level before left behind: a client that went
away keeps its slot until the next token (ggml-org/llama.cpp#24496)."""
_SETTLE_EVERY_S = 0.2
_LAST_SCRAPE_S = 2.0
_LOG_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Watched:
    """What there is to watch; each part may be missing.

    Attributes:
        engine: The engine's first processes (:mod:`.listener`).
        scrape: Asks the engine for its counters; gives ``None`` for no answer, and never raises.
        sensors: For readings called ``temperature_*``, ``throttle_*``, ``clamp_*`` and
            ``undervoltage_alarm``; a sensor without any is read once, and left alone.
        caps: The performance state, to be compared before and after.
        log: What the engine writes, if the agent started it.
        own_pids: The agent's processes; the load generator descends from one of them.
    """

    engine: EnginePids = field(default=lambda: None)
    scrape: Callable[[], Awaitable[Counters | None]] | None = None
    sensors: Sequence[Sensor] = ()
    caps: Callable[[], str] | None = None
    log: Path | None = None
    own_pids: frozenset[int] = field(default_factory=lambda: frozenset({os.getpid()}))


@final
class Watch:
    """``async with Watch(watched) as watch:`` around a level; afterwards ``watch.seen()``.

    Entering waits, for a bounded time, until the engine has nothing to do. Counters of the kernel
    are read at the start and at the end alone; sensors and clocks twice a second; the
    engine's counters once a second. What happens in the body comes out of it as it is.

    Args:
        watched: What there is to watch.
        files: The device's files.
        clock: Both clocks.
        every_s: Between looks at sensors and clocks; scrapes are half as often.
        settle_s: How long to wait for an engine that is busy.
    """

    def __init__(
        self,
        watched: Watched,
        *,
        files: Files | None = None,
        clock: Callable[[], ClockLook] = both_clocks,
        every_s: float = EVERY_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._watched = watched
        self._files = files or Files()
        self._clock = clock
        self._every_s = every_s
        self._settle_s = settle_s
        self._before: Counters | None = None
        self._lost: str | None = None

    async def __aenter__(self) -> Watch:
        """Look at everything once, and go on looking."""
        self._before = await self._settled()
        self._told = [sensor for sensor in self._watched.sensors if _tells(sensor)]
        self.begin()
        pids = self._watched.engine()
        self._engine = None if pids is None else self._first.identities(pids)
        self._own = self._first.identities(self._watched.own_pids)
        self._keepers = (self._engine or frozenset()) | self._first.holder(
            self._engine or frozenset()
        )
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._look_often)
        self._tasks.start_soon(self._scrape_often)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Look once more; a cancelled level is not held up by the last scrape."""
        self._look()
        self._last = self._host_look()
        self._caps_after = self._caps()
        self._lost = self._who_is_lost()
        self._tasks.cancel_scope.cancel()
        # Without the body's exception, which the task group would wrap.
        await self._tasks.__aexit__(None, None, None)
        with anyio.move_on_after(_LAST_SCRAPE_S):
            await self._scrape()

    def begin(self) -> None:
        """The warm-up is over: what the device and the log did before does not count."""
        self._clocks: list[ClockLook] = []
        self._sensors: list[SensorLook] = []
        self._scraped_ns: list[int] = []
        self._scrapes: list[Counters] = []
        self._look()
        self._first = self._host_look()
        self._caps_before = self._caps()
        self._log_from = self._log_size()

    def seen(self) -> Evidence:
        """What the looks come to.

        The load generator's part is for its parent to add; free memory for the memory guard.
        """
        return Evidence(self._host(), self._engine_evidence())

    async def _settled(self) -> Counters | None:
        """The last scrape before the level: of an idle engine, unless it does not become idle."""
        found = await self._ask()
        with anyio.move_on_after(self._settle_s):
            while found is not None and (found.running or found.waiting):
                await anyio.sleep(_SETTLE_EVERY_S)
                found = await self._ask() or found
        return found

    async def _look_often(self) -> None:
        while True:
            await anyio.sleep(self._every_s)
            self._look()

    async def _scrape_often(self) -> None:
        while self._watched.scrape is not None:
            await anyio.sleep(LOOKS_A_SCRAPE * self._every_s)
            await self._scrape()

    async def _scrape(self) -> None:
        counters = await self._ask()
        if counters is not None:
            self._scrapes.append(counters)
            self._scraped_ns.append(self._clock().mono_ns)

    async def _ask(self) -> Counters | None:
        return None if self._watched.scrape is None else await self._watched.scrape()

    def _look(self) -> None:
        clock = self._clock()
        self._clocks.append(clock)
        values = {
            reading.name: reading.value
            for sensor in self._told
            for reading in sensor.read()
            if reading.value is not None
        }
        self._sensors.append(SensorLook(clock.mono_ns, values))

    def _host_look(self) -> HostLook:
        return look(self._files, self._clock().mono_ns)

    def _caps(self) -> str | None:
        return None if self._watched.caps is None else self._watched.caps()

    def _host(self) -> HostEvidence:
        first, last = self._first, self._last
        cpu = used(first.cpu, last.cpu, engine=self._engine, agent=self._own, tick_s=TICK_S)
        counted = bool(first.cpu.cores.count and last.cpu.cores.count)
        span_s = (last.mono_ns - first.mono_ns) / 1e9
        throttled = throttled_share(self._sensors)
        return HostEvidence(
            span_s=span_s,
            cores=cpu.cores if counted else None,
            engine_cpu_s=cpu.engine_s if self._engine else None,
            agent_cpu_s=cpu.agent_s,
            # An engine that has gone took the record of its own with it.
            foreign_cpu_s=cpu.foreign_s if counted and not self._lost else None,
            stolen_cpu_s=cpu.stolen_s if counted else None,
            foreign_names=cpu.foreign_names,
            swap_in_bytes=self._pages("pswpin"),
            swap_out_bytes=self._pages("pswpout"),
            refault_bytes=self._pages("workingset_refault_file"),
            oom_kills=self._grown("oom_kill"),
            stalled_share=self._stalled_share(span_s),
            throttled_share=None if throttled is None else throttled[0],
            throttled_by="" if throttled is None else throttled[1],
            temperature_max_c=highest_temperature_c(self._sensors),
            caps_changed=self._caps_changed(),
            clock_step_s=clock_step_s(self._clocks),
        )

    def _engine_evidence(self) -> EngineEvidence:
        times = self._scraped_ns
        seconds = (times[-1] - times[0]) / 1e9 if times else 0.0
        return of_scrapes(
            self._before, self._scrapes, seconds, lost=self._lost, jit_lines=self._jit_lines()
        )

    def _grown(self, name: str) -> int | None:
        before, after = self._first.vmstat.get(name), self._last.vmstat.get(name)
        return None if before is None or after is None else max(0, after - before)

    def _pages(self, name: str) -> int | None:
        pages = self._grown(name)
        return None if pages is None else pages * PAGE_BYTES

    def _stalled_share(self, span_s: float) -> float | None:
        before, after = self._first.stalled_s, self._last.stalled_s
        return None if before is None or after is None or not span_s else (after - before) / span_s

    def _caps_changed(self) -> str | None:
        before, after = self._caps_before, self._caps_after
        if before is None or after is None:
            return None
        return "" if before == after else f"{before} -> {after}"

    def _who_is_lost(self) -> str | None:
        """Processes are the same as long as number and start are."""
        if not self._engine:
            return None
        gone = self._keepers - self._last.identities(one.pid for one in self._keepers)
        pids = ", ".join(str(one.pid) for one in sorted(gone, key=_pid))
        return f"its process {pids} is gone" if gone else ""

    def _jit_lines(self) -> tuple[str, ...] | None:
        if self._watched.log is None:
            return None
        try:
            with self._watched.log.open("rb") as log:
                log.seek(self._log_from)
                text = log.read(_LOG_BYTES).decode("utf-8", "replace")
        except OSError:
            return None
        return jit_lines(text)

    def _log_size(self) -> int:
        try:
            return 0 if self._watched.log is None else self._watched.log.stat().st_size
        except OSError:
            return 0


def _tells(sensor: Sensor) -> bool:
    return any(
        reading.state is not State.ABSENT and reading.name.startswith(WATCHED)
        for reading in sensor.read()
    )


def _pid(one: Identity) -> int:
    return one.pid
