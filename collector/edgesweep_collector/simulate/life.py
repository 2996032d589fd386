"""Everything one device ever sends, in order, as the bytes that travel. Pure.

Several streams (its agent's starts, heartbeats, telemetry, runs) are merged by their times; each
record then becomes an envelope under the next number, with the clocks of that instant.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from edgesweep import codec, envelope
from edgesweep.envelope import Envelope
from edgesweep.events import SPOOL_QUARANTINED, Dropped, clock_set, records_dropped
from edgesweep.records import Birth, Event, Heartbeat, Kind, Record

from .boots import Clocks, Start, clocks, starts, version
from .dice import dice
from .fleet import Fault, SimDevice
from .levels import ended, level, started
from .readings import sensors_up, telemetry
from .timetable import Sweep, sweeps

_PERIODIC = frozenset({Kind.HEARTBEAT, Kind.TELEMETRY})
_GAP_EVERY, _GAP = 40, 5
_TWICE_EVERY = 8
_EPOCH_EVERY_S = 900.0

Make = Callable[[], Record]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that a device has to say at an instant.

    Attributes:
        version_s: The instant that the version of the agent is of: a run keeps what it began with.
    """

    at_s: float
    kind: Kind
    make: Make
    version_s: float


@dataclass(frozen=True, slots=True)
class Made:
    """An envelope.

    Attributes:
        at_s: When it is made, in seconds from the start of the fleet.
        copies: How often it is sent, acks or not.
    """

    at_s: float
    epoch: int
    seq: int
    kind: Kind
    data: bytes
    copies: int = 1


@dataclass(slots=True)
class Missing:
    """Numbers that no envelope has, so far."""

    told: int = 0
    untold: int = 0


@dataclass(slots=True)
class Life:
    """One device's life.

    Attributes:
        missing: Numbers that were left out, by what was yielded so far.
    """

    one: SimDevice
    missing: Missing = field(default_factory=Missing)
    _clocks: Clocks = field(init=False)

    def __post_init__(self) -> None:
        self._clocks = clocks(self.one)

    def __iter__(self) -> Iterator[Made]:
        """Every envelope, in the order of its making."""
        last_s, span_s = last_s_of(self.one), self.one.options.span_s
        epoch, epoch_n, seq = self.epoch(0), 0, 0
        for number, moment in enumerate(self._moments(), 1):
            if moment.at_s > last_s or (span_s is not None and moment.at_s >= span_s):
                return
            if (now_n := self._epoch_number(moment.at_s)) != epoch_n:
                epoch, epoch_n, seq = self.epoch(now_n), now_n, 1
                yield self._sealed(self._quarantined(moment), epoch, seq, 1)
            seq += 1
            yield self._sealed(moment, epoch, seq, self._copies(number))
            for gap in self._gap(number, moment, epoch, seq):
                seq += _GAP
                if gap is not None:
                    seq += 1
                    yield self._sealed(gap, epoch, seq, 1)

    def epoch(self, number: int) -> int:
        """Of the spool that it has after so many were found damaged."""
        return dice(*self.one.words, "epoch", number).getrandbits(63)

    def _sealed(self, moment: Moment, epoch: int, seq: int, copies: int) -> Made:
        kind, payload = codec.encode(moment.make())
        data = envelope.encode(
            Envelope(
                device_id=self.one.device_id,
                epoch=epoch,
                seq=seq,
                boot_id=self._clocks.boot_id,
                agent_version=version(self.one, moment.version_s),
                kind=kind,
                wall_ns=self._clocks.wall_ns(moment.at_s),
                mono_ns=self._clocks.mono_ns(moment.at_s),
                clock=self._clocks.quality(moment.at_s),
                payload=payload,
            )
        )
        return Made(moment.at_s, epoch, seq, kind, data, copies)

    def _moments(self) -> Iterator[Moment]:
        """All streams as one, less what an agent that was down did not measure."""
        kinds = (self._births(), self._clock(), self._runs(), self._heartbeats(), self._telemetry())
        coming = starts(self.one)
        following = next(coming, None)
        for moment in heapq.merge(*kinds, key=lambda moment: moment.at_s):
            while following is not None and following.begins_s <= moment.at_s:
                following = next(coming, None)
            if moment.kind in _PERIODIC and _is_down(following, moment.at_s):
                continue
            yield moment

    def _births(self) -> Iterator[Moment]:
        for start in starts(self.one):
            birth = Birth(self.one.device, self._clocks.wall_ns(start.begins_s), start.connection)
            yield _moment(start.begins_s, birth)

    def _clock(self) -> Iterator[Moment]:
        at_s = self._clocks.unset_until_s
        if at_s > 0:
            offset_ns = self._clocks.wall_ns(at_s) - self._clocks.mono_ns(at_s)
            yield _moment(at_s, clock_set(offset_ns, stepped_ns=offset_ns))

    def _heartbeats(self) -> Iterator[Moment]:
        for at_s in self._ticks(self.one.options.heartbeat_s, "heartbeat"):
            yield Moment(at_s, Kind.HEARTBEAT, partial(self._heartbeat, at_s), at_s)

    def _heartbeat(self, at_s: float) -> Heartbeat:
        dropped = {"telemetry": self.missing.told} if self.missing.told else {}
        rows = dice(*self.one.words, "rows", round(at_s * 1000)).randrange(3)
        return Heartbeat(
            uptime_s=round(at_s - self.one.joins_s, 3),
            spool_rows=rows,
            spool_bytes=65_536 + 4_096 * rows,
            dropped=dropped,
            sensor_up=sensors_up(self.one),
        )

    def _telemetry(self) -> Iterator[Moment]:
        if not self.one.options.telemetry_s:
            return
        running = sweeps(self.one)
        sweep = next(running, None)
        for at_s in self._ticks(self.one.options.telemetry_s, "telemetry"):
            while sweep is not None and sweep.ends_s <= at_s:
                sweep = next(running, None)
            busy_s = at_s - sweep.begins_s if sweep and sweep.begins_s <= at_s else None
            yield Moment(
                at_s,
                Kind.TELEMETRY,
                partial(telemetry, self.one, at_s, busy_s),
                at_s,
            )

    def _ticks(self, every_s: float, name: str) -> Iterator[float]:
        first_s = self.one.joins_s + dice(*self.one.words, name).uniform(0.0, every_s)
        last_s = last_s_of(self.one)
        for n in itertools.count():
            at_s = first_s + n * every_s
            if at_s > last_s:
                return
            yield at_s

    def _runs(self) -> Iterator[Moment]:
        for sweep in sweeps(self.one):
            yield from self._run(sweep)

    def _run(self, sweep: Sweep) -> Iterator[Moment]:
        run = started(self.one, sweep, self._clocks.wall_ns(sweep.begins_s))
        yield Moment(sweep.begins_s, Kind.RUN, lambda: run, sweep.begins_s)
        for slot in sweep.slots:
            wall_ns = self._clocks.wall_ns(slot.begins_s)
            mono_ns = self._clocks.mono_ns(slot.begins_s)
            yield Moment(
                slot.ends_s,
                Kind.LEVEL,
                partial(level, self.one, sweep, slot, wall_ns, mono_ns),
                sweep.begins_s,
            )
        done = ended(run, sweep, self._clocks.wall_ns(sweep.ends_s))
        yield Moment(sweep.ends_s, Kind.RUN, lambda: done, sweep.begins_s)

    def _copies(self, number: int) -> int:
        return 2 if Fault.DUPLICATES in self.one.faults and number % _TWICE_EVERY == 0 else 1

    def _gap(self, number: int, moment: Moment, epoch: int, seq: int) -> Iterator[Moment | None]:
        """What tells of numbers that are now left out; ``None`` if nothing does."""
        if number % _GAP_EVERY:
            return
        if Fault.GAP_UNTOLD in self.one.faults:
            self.missing.untold += _GAP
            yield None
        if Fault.GAP_TOLD in self.one.faults:
            self.missing.told += _GAP
            gone = Dropped(epoch, ((seq + 1, seq + _GAP),), {"telemetry": _GAP}, "full")
            yield _moment(moment.at_s, records_dropped(gone))

    def _epoch_number(self, at_s: float) -> int:
        if Fault.NEW_EPOCHS not in self.one.faults:
            return 0
        return max(0, int((at_s - self.one.joins_s) // _EPOCH_EVERY_S))

    def _quarantined(self, moment: Moment) -> Moment:
        text = "the spool was damaged; it is set aside, and a new one begun"
        return _moment(moment.at_s, Event(SPOOL_QUARANTINED, text, {"bytes": "65536"}))


def last_s_of(one: SimDevice) -> float:
    """When a life that is told in runs ends: with the last of them; others have no end."""
    if one.options.runs is None:
        return float("inf")
    return max((sweep.ends_s for sweep in sweeps(one)), default=0.0)


def _moment(at_s: float, record: Birth | Event) -> Moment:
    kind = Kind.BIRTH if isinstance(record, Birth) else Kind.EVENT
    return Moment(at_s, kind, lambda: record, at_s)


def _is_down(following: Start | None, at_s: float) -> bool:
    return following is not None and at_s >= following.begins_s - following.silent_s
