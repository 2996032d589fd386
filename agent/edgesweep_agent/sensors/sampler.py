"""Reads the sensors in a thread of its own: all of them at a slow pace, the fast ones in a window.

A sensor promises never to raise and never to block. One that does so all the same is taken out
with a reason and tried again later; where it does not come back at all, its thread is left to it
and another goes on with the rest.
"""

from __future__ import annotations

import logging
import threading
import time
from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgesweep_agent.core.energy import Series

from .base import Reading, State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from edgesweep_agent.core.energy import Point

    from .base import Sensor

_log = logging.getLogger(__name__)

BLOCK_S = 0.5
"""A read that takes longer holds up all the others."""
RETRY_S = 60.0
"""How long a sensor that raised or blocked is left alone."""
KEEP_S = 3600.0
"""Readings older than a long level are forgotten."""

_NS = 1_000_000_000
_FOR_GOOD_NS = 2**62
_POWER_UNITS = frozenset({"W", "J"})


@dataclass(frozen=True, slots=True)
class Pace:
    """How often what is read, and how much is kept.

    Attributes:
        fast_s: Between two readings of a ``fast`` sensor while a window is open.
        all_s: Between two readings of everything.
        keep_s: How far back :meth:`Sampler.series` goes.
        block_s: A read that takes longer takes its sensor out.
        retry_s: How long a sensor that is out is left alone.
    """

    fast_s: float = 0.1
    all_s: float = 1.0
    keep_s: float = KEEP_S
    block_s: float = BLOCK_S
    retry_s: float = RETRY_S


class _Ring:
    """The last ``size`` points of one reading of one sensor, 16 bytes each."""

    def __init__(self, sensor: Sensor, size: int) -> None:
        self.sensor = sensor
        self._size = size
        self._next = 0
        self._times = array("q")
        self._values = array("d")

    def add(self, t_ns: int, value: float) -> None:
        if len(self._times) < self._size:
            self._times.append(t_ns)
            self._values.append(value)
            return
        self._times[self._next], self._values[self._next] = t_ns, value
        self._next = (self._next + 1) % self._size

    def between(self, start_ns: int, end_ns: int) -> list[Point]:
        """From the last point at or before the start to the first at or after the end."""
        found: list[Point] = []
        for at in (*range(self._next, len(self._times)), *range(self._next)):
            point = (self._times[at], self._values[at])
            if point[0] <= start_ns:
                found = [point]
                continue
            found.append(point)
            if point[0] >= end_ns:
                break
        return found


@dataclass(slots=True)
class _Source:
    """One sensor, what it last said, and since when it is out."""

    sensor: Sensor
    latest: tuple[Reading, ...] = ()
    out_until_ns: int = 0
    seen: bool = False
    """Whether it ever had a value: absent hardware is no sensor that is down."""


@dataclass(slots=True)
class _Turn:
    """One thread's stay: the source that it reads just now, and since when."""

    source: _Source | None = None
    since_ns: int = 0
    over: bool = False


class Sampler:
    """Samples between ``with`` and its end; every method may be called from any thread.

    Turn :meth:`fast` on a period before a window and off a period after it: energy is
    interpolated at the edges, and needs a reading beyond each.

    Args:
        sensors: What there is; may be empty.
        clock: Monotonic ns, the same as the window's.
        pace: How often, and how much is kept.
    """

    def __init__(
        self,
        sensors: Sequence[Sensor],
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        pace: Pace | None = None,
    ) -> None:
        # The fast ones first, so that the slow ones of the same round do not delay them.
        self._sources = [_Source(one) for one in sorted(sensors, key=lambda one: not one.fast)]
        self._clock = clock
        self._pace = pace or Pace()
        self._rings: dict[str, _Ring] = {}
        self._changed = threading.Condition()
        self._fast = False
        self._stopped = False
        self._turn = _Turn()

    def __enter__(self) -> Self:
        """Begin to read."""
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; a sensor that blocks is not waited for."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join(self._pace.block_s)

    def fast(self, on: bool) -> None:
        """Read the fast sensors ten times a second from now on, or no longer."""
        with self._changed:
            self._mend()
            self._fast = on
            self._changed.notify_all()

    def series(self, name: str, start_ns: int, end_ns: int) -> list[Point]:
        """The values of one reading, with the nearest beyond each edge as far as there is one."""
        with self._changed:
            self._mend()
            ring = self._rings.get(name)
            return ring.between(start_ns, end_ns) if ring else []

    def power(self, start_ns: int, end_ns: int) -> list[Series]:
        """Everything that measures power or energy, as :mod:`edgesweep_agent.core.energy` takes it.

        A reading without a boundary is a part of one that has it, and is left out.
        """
        return [
            Series(one.name, one.unit, one.boundary, self.series(one.name, start_ns, end_ns))
            for one in self.latest()
            if one.boundary and one.unit in _POWER_UNITS
        ]

    def latest(self) -> tuple[Reading, ...]:
        """What every sensor last said; of one that is out, why it says nothing.

        Where two sensors have a reading of one name, the first that has a value stands.
        """
        found: dict[str, Reading] = {}
        with self._changed:
            self._mend()
            for one in (reading for source in self._sources for reading in source.latest):
                if one.name not in found or found[one.name].state is not State.OK:
                    found[one.name] = one
        return tuple(found.values())

    def up(self) -> dict[str, bool]:
        """By sensor: whether it had a value at its last reading.

        A sensor whose hardware this box never had is not among them.
        """
        with self._changed:
            self._mend()
            return {
                source.sensor.name: any(one.state is State.OK for one in source.latest)
                for source in self._sources
                if source.seen or any(one.state is State.FAILED for one in source.latest)
            }

    def _begin(self) -> None:
        self._turn = _Turn()
        self._thread = threading.Thread(
            target=self._run, args=(self._turn,), name="sampler", daemon=True
        )
        self._thread.start()

    def _mend(self) -> None:
        """Leave a thread that hangs in a read to it, and go on in another."""
        source, now = self._turn.source, self._clock()
        if self._stopped or source is None or now - self._turn.since_ns < self._block_ns:
            return
        self._turn.over = True
        # Until it comes back, if it ever does: a second thread would hang as well.
        self._take_out(source, "it does not come back from a read", now + _FOR_GOOD_NS)
        self._begin()

    @property
    def _block_ns(self) -> int:
        return round(self._pace.block_s * _NS)

    def _run(self, turn: _Turn) -> None:
        next_all = next_fast = self._clock()
        while not (self._stopped or turn.over):
            fast, now = self._fast, self._clock()
            if now >= next_all:
                self._read(self._sources, turn)
                next_all = _after(next_all, self._pace.all_s, self._clock())
                next_fast = _after(now, self._pace.fast_s, self._clock())
            elif fast and now >= next_fast:
                self._read([one for one in self._sources if one.sensor.fast], turn)
                next_fast = _after(next_fast, self._pace.fast_s, self._clock())
            due = min(next_all, next_fast) if fast else next_all
            with self._changed:
                if self._fast is fast and not (self._stopped or turn.over):
                    self._changed.wait(max(0, due - self._clock()) / _NS)
                if self._fast and not fast:
                    next_fast = self._clock()

    def _read(self, sources: Sequence[_Source], turn: _Turn) -> None:
        for source in sources:
            if self._stopped or turn.over:
                return
            began = self._clock()
            if began < source.out_until_ns:
                continue
            turn.since_ns, turn.source = began, source
            try:
                readings, problem = tuple(source.sensor.read()), ""
            except Exception as error:  # noqa: BLE001 - one bad sensor must not end the others
                readings, problem = (), f"{type(error).__name__}: {error}"
            ended = self._clock()
            with self._changed:
                turn.source = None
                if turn.over:
                    source.out_until_ns = ended + round(self._pace.retry_s * _NS)
                    return
                if ended - began > self._block_ns:
                    problem = f"it took {(ended - began) / _NS:.1f} s for a read"
                self._note(source, readings, problem, (began + ended) // 2)

    def _note(
        self, source: _Source, readings: tuple[Reading, ...], problem: str, t_ns: int
    ) -> None:
        if problem:
            self._take_out(source, problem, self._clock() + round(self._pace.retry_s * _NS))
            return
        source.latest, source.out_until_ns = readings, 0
        for one in readings:
            if one.state is State.OK and one.value is not None:
                source.seen = True
                ring = self._ring(one.name, source.sensor)
                if ring.sensor is source.sensor:
                    ring.add(t_ns, one.value)

    def _take_out(self, source: _Source, problem: str, until_ns: int) -> None:
        source.out_until_ns = until_ns
        name = source.sensor.name
        reason = f"{name} is left alone for now: {problem}"
        known = source.latest or (Reading(name, ""),)
        source.latest = tuple(
            replace(one, state=State.FAILED, value=None, reason=reason) for one in known
        )
        told = {"sensor": name, "reason": problem}
        _log.warning("sensor %s is taken out: %s", name, problem, extra=told)

    def _ring(self, name: str, sensor: Sensor) -> _Ring:
        if name not in self._rings:
            step_s = self._pace.fast_s if sensor.fast else self._pace.all_s
            size = max(2, round(self._pace.keep_s / step_s))
            self._rings[name] = _Ring(sensor, size)
        return self._rings[name]


def _after(due_ns: int, period_s: float, now_ns: int) -> int:
    """The next time after ``due_ns``; what was missed is not made up for."""
    period_ns = round(period_s * _NS)
    following = due_ns + period_ns
    return following if following > now_ns else now_ns + period_ns
