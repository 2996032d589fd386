"""An agent that takes the broker's PUBACK for a receipt, as many bridges do: it loses records.

Everything else is the real agent's. It is the proof that the chaos test can fail.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager

from edgesweep.envelope import Ack, AckStatus
from edgesweep_agent.__main__ import main
from edgesweep_agent.uplink.mqtt import MqttUplink
from edgesweep_agent.uplink.registry import UPLINKS


class Believing:
    """A link whose acks are the broker's; those of the collector are not heard."""

    def __init__(self, link, device_id: str) -> None:
        self._link, self._device_id = link, device_id

    def __getattr__(self, name):
        return getattr(self._link, name)

    async def words(self):
        async for word in self._link.words():
            if not isinstance(word, Ack):
                epoch, seq = word.key
                yield Ack(self._device_id, epoch, ((seq, seq),), AckStatus.STORED)


class PubackUplink(MqttUplink):
    """The real one, its links wrapped."""

    @asynccontextmanager
    async def connect(self):
        async with super().connect() as link:
            yield Believing(link, self._device_id)


UPLINKS["mqtt"] = PubackUplink
# As `serve --config FILE` would begin it, which becomes another process.
sys.argv[1:] = sys.argv[-1:]
main()
