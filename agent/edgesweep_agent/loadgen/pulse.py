"""The load generator's own pulse: how late its timers are, and what processor time it takes."""

from __future__ import annotations

import asyncio
import time
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TICK_S = 0.05
_TICKS_PER_BEAT = 4
_LATE_S = 0.002
"""A timer of ``epoll`` is up to one millisecond late by itself; a busy core makes it 5 to 16."""
_LATE_TICKS = 2


class Pulse:
    """A 50 ms timer that notes its own lateness.

    Args:
        on_beat: Called five times a second.
        on_late: Called once, when others have kept it waiting a second time.
    """

    def __init__(self, on_beat: Callable[[], object], on_late: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_beat = on_beat
        self._on_late = on_late
        self._ticks = 0
        self._late_ticks = 0
        self.reset()
        self._schedule()

    def reset(self) -> None:
        """Measures from here."""
        self._lags_s = array("d")
        self._cpu_from_s = time.process_time()

    @property
    def lag_max_s(self) -> float:
        """The most that it was late since the last reset."""
        return max(self._lags_s, default=0.0)

    @property
    def lag_p99_s(self) -> float:
        """All but one in a hundred times, and but once, it was less late than this."""
        ordered = sorted(self._lags_s)
        return ordered[-1 - max(1, len(ordered) // 100)] if len(ordered) > 1 else 0.0

    @property
    def cpu_s(self) -> float:
        """Processor time since the last reset."""
        return time.process_time() - self._cpu_from_s

    def stop(self) -> None:
        """Ticks no more."""
        self._handle.cancel()

    def _schedule(self) -> None:
        self._due_s = self._loop.time() + TICK_S
        self._handle = self._loop.call_at(self._due_s, self._tick)

    def _tick(self) -> None:
        lag_s = max(0.0, self._loop.time() - self._due_s)
        self._lags_s.append(lag_s)
        if lag_s > _LATE_S:
            self._late_ticks += 1
            if self._late_ticks == _LATE_TICKS:
                self._on_late()
        self._ticks += 1
        if self._ticks % _TICKS_PER_BEAT == 0:
            self._on_beat()
        self._schedule()
