"""Spools for tests: entries with real envelopes, a disk and a clock that do as they are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgesweep import codec, envelope
from edgesweep.envelope import Envelope
from edgesweep.events import dropped_records
from edgesweep.records import ClockQuality, Event, Heartbeat, Kind, SensorValue, Telemetry
from edgesweep_agent.core.room import Limits
from edgesweep_agent.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 2**20
WALL_NS = 1_767_225_600 * 10**9


def sealing(record, **fields):
    """The entry of a record: its kind, and what makes its envelope."""
    kind, payload = codec.encode(record)
    return kind, lambda epoch, seq: sealed(kind, payload, epoch, seq, **fields)


def sealed(kind, payload, epoch, seq, **fields):
    made = {
        "device_id": "n97-01",
        "boot_id": "boot",
        "agent_version": "0.1.0",
        "wall_ns": WALL_NS,
        "mono_ns": 1,
        "clock": ClockQuality.SYNCED,
        **fields,
    }
    return envelope.encode(Envelope(epoch=epoch, seq=seq, kind=kind, payload=payload, **made))


def result(size=300, name="note"):
    """A record that is never dropped, of about so many bytes."""
    return sealing(Event(name, "x" * size))


def heartbeat(uptime_s=1.0):
    return sealing(Heartbeat(uptime_s, 0, 0))


def telemetry(readings=20):
    return sealing(Telemetry(tuple(SensorValue(f"t{n}", "degC", n / 8) for n in range(readings))))


@dataclass
class Disk:
    """What a spool is told of its disk and its clock."""

    free: int | None = None
    now_s: float = 0.0
    epochs: list[int] = field(default_factory=lambda: list(range(7, 100)))
    clock: Callable[[], float] | None = None

    def open(self, path, **limits) -> Spool:
        return Spool.open(
            path,
            new_epoch=lambda: self.epochs.pop(0),
            limits=Limits(**limits),
            clock=self.clock or (lambda: self.now_s),
            disk_free=lambda: self.free,
        )


def seal_event(event):
    """What the daemon gives the spool to seal its own events with."""
    return sealing(event)[1]


def keys(spool, limit=10_000):
    return [parcel.key for parcel in spool.head(limit)]


def kinds(spool, limit=10_000):
    return [parcel.topic_kind for parcel in spool.head(limit)]


def events(spool, name):
    """The events of a name that wait."""
    waiting = [envelope.decode(one.data) for one in spool.head(10_000) if one.topic_kind == "event"]
    found = [codec.decode(Kind.EVENT, one.payload) for one in waiting]
    return [one for one in found if one.name == name]


def told(spool):
    """What a collector would be told to wait for no longer, after a while."""
    spool.tell(seal_event)
    return [dropped_records(one) for one in events(spool, "records_dropped")]


def drained(spool):
    """Deliver all that waits; the keys in their order."""
    found = []
    while parcels := spool.head(100):
        found += [parcel.key for parcel in parcels]
        spool.settle([parcel.key for parcel in parcels], [], "")
    return found
