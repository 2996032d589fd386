"""What a device says of itself on its retained topic, and what its broker says after its death.

Both carry the number of their connection. A reader that knows connection 8 of an epoch ignores the
will of connection 7, which may come minutes later, when the broker gives a dead line up
(Sparkplug's bdSeq has the same use).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Presence:
    """One connection of a device.

    Attributes:
        connection: Rises with each connection within the epoch.
        epoch: Of the spool, in hex.
    """

    connection: int
    epoch: str
    boot_id: str
    agent_version: str


def state(presence: Presence, ts_ns: int, *, online: bool) -> bytes:
    """The JSON of the state topic: who is connected, or was.

    Args:
        presence: Who.
        ts_ns: Wall time at which the connection was begun, in ns since 1970; a will has the same.
        online: Whether it still is.
    """
    return json.dumps({"online": online, **asdict(presence), "ts_ns": ts_ns}).encode()
