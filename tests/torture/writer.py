"""Writes to a spool until it is killed, and says what it was promised: FOLDER SEED.

Each line is written before the next thing happens: ``A`` keys that were stored, ``D`` keys that
are delivered, ``T`` an epoch and ranges that a collector was told not to wait for, ``U`` the
epoch under which records wait in memory. What is in a record follows from its key, so that a
reader knows whether it is the one that was stored.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from edgesweep import codec, envelope
from edgesweep.events import dropped_records, ranges_text
from edgesweep.records import Event, Heartbeat, Kind, SensorValue, Telemetry
from edgesweep_agent.core import wal
from edgesweep_agent.core.room import Limits
from edgesweep_agent.errors import SpoolError
from edgesweep_agent.spool import Refused, Spool
from spooling import sealed, sealing

LIMITS = Limits(max_bytes=2**20, min_free_bytes=0, keep_delivered_bytes=64 * 1024)
DEVICE = "n97-01"
KINDS = (Kind.EVENT,) * 3 + (Kind.TELEMETRY,) * 6 + (Kind.HEARTBEAT,)


def content(kind: Kind, epoch: int, seq: int) -> bytes:
    """The payload of a record, by its key alone."""
    size = 20 + seq * 7919 % 1500
    text = f"{epoch}-{seq}-" + "y" * size
    record = {
        Kind.EVENT: Event("torture", text),
        Kind.TELEMETRY: Telemetry((SensorValue(text, "1", float(seq)),)),
        Kind.HEARTBEAT: Heartbeat(float(seq), epoch % 1000, seq),
    }[kind]
    return codec.encode(record)[1]


def entry(kind: Kind):
    return kind, lambda epoch, seq: sealed(kind, content(kind, epoch, seq), epoch, seq)


def is_what_it_was(parcel) -> bool:
    """Whether the record of a key is the one that was stored under it."""
    made = envelope.decode(parcel.data)
    if (made.epoch, made.seq) != parcel.key or made.kind.value != parcel.topic_kind:
        return False
    if made.device_id != DEVICE:
        return True  # of an agent of 0.1
    if made.kind is Kind.EVENT and codec.decode(made.kind, made.payload).name != "torture":
        return True
    return made.payload == content(made.kind, *parcel.key)


def opened(folder: Path, limits: Limits = LIMITS, clock=time.monotonic) -> Spool:
    return Spool.open(
        folder / "spool.db",
        new_epoch=lambda: random.getrandbits(62),
        limits=limits,
        clock=clock,
    )


def seal_event(event):
    return sealing(event)[1]


def told(parcel) -> str:
    """The line for a parcel that tells what was dropped; or ""."""
    made = envelope.decode(parcel.data)
    if made.kind is not Kind.EVENT:
        return ""
    event = codec.decode(made.kind, made.payload)
    if event.name != "records_dropped":
        return ""
    dropped = dropped_records(event)
    return f"T {dropped.epoch} {ranges_text(dropped.ranges)}\n"


def say(line: str) -> None:
    os.write(1, line.encode())


def keys_text(keys) -> str:
    return " ".join(f"{epoch}:{seq}" for epoch, seq in keys)


def step(spool: Spool, dice: random.Random) -> None:
    """One thing that an agent does."""
    what = dice.random()
    if what < 0.6:
        count = dice.choice((1, 1, 2, 8, 64))
        stored = spool.append([entry(dice.choice(KINDS)) for _ in range(count)])
        say(f"A {keys_text(one for one in stored if not isinstance(one, Refused))}\n")
    elif what < 0.85:
        parcels = spool.head(dice.randrange(1, 60))
        parcels = [one for one in parcels if dice.random() < 0.9]
        say("".join(told(one) for one in parcels))
        say(f"D {keys_text(one.key for one in parcels)}\n")
        spool.settle([one.key for one in parcels], [], "")
    elif what < 0.9:
        # A collector that refuses the word of what was dropped waits for ever, by its own choice.
        refused = [one.key for one in spool.head(2) if not told(one)]
        spool.settle([], refused, "torture")
    elif what < 0.93:
        spool.requeue()
    elif what < 0.96:
        spool.resend(spool.epoch, ((1, 2**40),))
    else:
        spool.tend()
        spool.tell(seal_event)


def position(folder: Path) -> str:
    """Which generation the log is of, and how far it is synced: all that it has committed."""
    path = folder / "spool.db-wal"
    log = path.read_bytes() if path.exists() else b""
    found = wal.parsed(log, 512)
    if found is None:
        return "none 0"
    ends = (at + found.page_bytes for at in found.committed.values())
    return f"{log[16:24].hex()} {max(ends, default=0)}"


def main() -> None:
    folder, dice = Path(sys.argv[1]), random.Random(sys.argv[2])
    spool = opened(folder)
    say("A\n")
    while True:
        if "--position" in sys.argv:
            say(f"B {position(folder)}\n")
        try:
            step(spool, dice)
        except SpoolError as error:
            sys.exit(f"the spool failed: {error}")


if __name__ == "__main__":
    main()
