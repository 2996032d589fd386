"""The MQTT 5 transport: takes what devices publish, and acks on a topic of each device.

A PUBACK only frees the broker; a device deletes a record on our ack alone. That is why nothing
here needs a session at the broker, and why neither the DUP nor the retain flag decides anything
(lensesio/stream-reactor#766 dropped what had DUP set, and lost data).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from edgesweep import topics
from edgesweep.envelope import Ack, encode_ack
from edgesweep_collector.peers import Denylist

from .broker import IN_FLIGHT, Arrived, Broker, Connection

if TYPE_CHECKING:
    from edgesweep_collector.counters import Counters

    from .accept import Acceptor

_log = logging.getLogger(__name__)

_ANSWER_WITHIN_S = 1.0


class MqttIngest:
    """Everything under ``edgesweep/v1/+/up/+`` of one broker, handed to the acceptor.

    The topic says which device speaks, as the broker's access list lets no device publish on the
    topics of another.

    Args:
        acceptor: Where envelopes go.
        counters: What is counted.
        broker: Where to connect.

    Raises:
        SettingsError: a file of ``broker.tls`` is of no use.
    """

    def __init__(self, acceptor: Acceptor, counters: Counters, broker: Broker) -> None:
        denylist_file = None if broker.tls is None else broker.tls.denylist_file
        self._denylist = Denylist(denylist_file, "mqtt.tls.denylist_file")
        self._told: set[str] = set()
        self._acceptor = acceptor
        self._counters = counters
        self._broker = broker
        self._connection = Connection(broker, self)
        if self._connection.tls is not None:
            expires_s = self._connection.tls.files.expires_s
            counters.certificate_expires.labels("mqtt.tls").set_function(expires_s)
        self._pump: asyncio.Task[None] | None = None
        self._problem: str | None = "not connected yet"
        self._waiting: asyncio.Queue[Arrived] = asyncio.Queue(16 * IN_FLIGHT)
        self._unanswered = 0
        self._answered: anyio.Event | None = None

    async def start(self) -> None:
        """Begin to connect; a broker that is not there is waited for, and :meth:`health` tells."""
        loop = asyncio.get_running_loop()
        self._pump = loop.create_task(self._hand_in())
        self._connection.start(loop)

    async def stop(self) -> None:
        """Take nothing more, give what was taken a second to be answered, and disconnect."""
        if self._pump is None or self._answered is not None:
            return
        self._answered = anyio.Event()
        if self._unanswered:
            with anyio.move_on_after(_ANSWER_WITHIN_S):
                await self._answered.wait()
        self._pump.cancel()
        await self._connection.stop()
        await asyncio.wait([self._pump])

    def health(self) -> str | None:
        """What is wrong with the connection; ``None`` while subscribed."""
        return self._problem

    def well(self) -> None:
        """Connected and subscribed."""
        self._problem = None
        self._counters.mqtt_connected.set(1)
        _log.info("subscribed", extra={"broker": repr(self._broker)})

    def unwell(self, problem: str) -> None:
        """Not connected; said once, however often it is tried again."""
        self._counters.mqtt_connected.set(0)
        if problem != self._problem and self._answered is None:
            _log.warning(problem, extra={"broker": repr(self._broker)})
        self._problem = problem

    def arrived(self, message: Arrived) -> None:
        """Queue a message. One that finds no room gets no ack, and so comes again."""
        if self._answered is not None:
            return
        if message.retained:
            self._counters.retained.inc()
        try:
            self._waiting.put_nowait(message)
        except asyncio.QueueFull:
            # A flood of QoS 0, which knows no limit, may leave no room for QoS 1 either. The
            # PUBACK frees the broker's slot: what counts for the device is the ack alone.
            self._counters.retries.inc()
            self._connection.puback(message)
        else:
            self._unanswered += 1

    async def _hand_in(self) -> None:
        while True:
            message = await self._waiting.get()
            try:
                self._submit(message)
            except Exception:  # noqa: BLE001 -- one message must not end the transport
                _log.exception("a message could not be handed in")
                self._settled(message)

    def _submit(self, message: Arrived) -> None:
        parsed = topics.parse_up(message.topic)
        settled = partial(self._settled, message)
        if parsed is None:
            self._counters.rejected.labels("topic").inc()
            _log.warning("refused a topic", extra={"topic": message.topic[:200]})
            settled()
            return
        device_id, _ = parsed
        if self._denylist.denies(device_id):
            self._deny(device_id)
            settled()
            return
        reply = _AckTopic(self, device_id)
        # Never waits: all devices share this line, and one that floods it must not stop it.
        if not self._acceptor.offer(message.payload, device_id, "mqtt", reply, settled):
            settled()

    def _deny(self, device_id: str) -> None:
        # No ack either: should it be let in again, its spool still has everything.
        self._counters.rejected.labels("denied").inc()
        if device_id not in self._told:
            self._told.add(device_id)
            _log.warning("refused a device", extra={"why": "denylist", "device": device_id})

    def _settled(self, message: Arrived) -> None:
        self._unanswered -= 1
        self._connection.puback(message)
        if self._answered is not None and self._unanswered == 0:
            self._answered.set()

    def send_ack(self, device_id: str, ack: Ack) -> None:
        """Publish an ack on the topic of the device that sent, whatever the envelope claimed."""
        if not self._connection.publish(topics.ack(device_id), encode_ack(ack)):
            self._counters.dropped_acks.inc()


@dataclass(frozen=True, slots=True)
class _AckTopic:
    """Where acks for a device go; equal for equal devices, so that its acks can be joined."""

    ingest: MqttIngest
    device_id: str

    def __call__(self, ack: Ack) -> None:
        self.ingest.send_ack(self.device_id, ack)
