"""The uplink over MQTT 5: QoS 1 up, the collector's acks down.

A broker's PUBACK is not a receipt: mosquitto 2.0.11 answers "Success" to what it then drops
(offline session over ``max_queued_messages``) and to what a kill loses (``autosave_interval``).
paho's thread only puts what it hears on the loop; an exception in one of its callbacks would
kill that thread while ``is_connected()`` stays true, so they do nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgesweep import topics
from edgesweep.envelope import Ack, WireError, decode_ack
from edgesweep.records import Kind

from .base import UplinkDown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from edgesweep.delivery import Parcel

_log = logging.getLogger(__name__)

KEEPALIVE_S = 30
NO_SUBSCRIBERS = 0x10


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is and how to log in; ``password`` was read from a file."""

    host: str
    port: int = 1883
    username: str | None = None
    password: str | None = None


class MqttLink:
    """One connection to the broker, as the event loop sees it."""

    def __init__(self, client: paho.Client, device_id: str) -> None:
        self._client = client
        self._device_id = device_id
        self.trouble = ""
        self._sent: set[int] = set()
        self._heard: asyncio.Queue[bytes | UplinkDown] = asyncio.Queue()
        self._down: UplinkDown | None = None

    async def send(self, parcel: Parcel) -> None:
        """Give one envelope to paho, which never holds more than the delivery window."""
        if self._down:
            raise self._down
        topic = topics.up(self._device_id, Kind(parcel.topic_kind))
        info = self._client.publish(topic, parcel.data, qos=1)
        if info.rc != paho.MQTT_ERR_SUCCESS:
            raise UplinkDown(paho.error_string(info.rc))
        self._sent.add(info.mid)

    async def acks(self) -> AsyncIterator[Ack]:
        """Acks until the connection is lost."""
        while True:
            heard = await self._heard.get()
            if isinstance(heard, UplinkDown):
                raise heard
            try:
                yield decode_ack(heard)
            except WireError as error:
                _log.warning("no ack on the ack topic", extra={"error": str(error)})

    def hear(self, payload: bytes) -> None:
        """A message came on the ack topic."""
        self._heard.put_nowait(payload)

    def answered(self, mid: int, reason: Any) -> None:
        """The broker answered a publish. What it says of ours is no receipt, but may be a no."""
        if mid not in self._sent:
            return
        self._sent.discard(mid)
        if reason.is_failure:
            self.trouble = f"the broker refuses records: {reason}"
        elif reason.value == NO_SUBSCRIBERS:
            self.trouble = "no collector is subscribed at the broker"
        else:
            self.trouble = ""

    def lost(self, reason: str) -> None:
        """The connection is gone."""
        self._down = UplinkDown(reason)
        self._heard.put_nowait(self._down)


class MqttUplink:
    """A broker between this device and the collectors."""

    name = "mqtt"

    def __init__(self, broker: Broker, device_id: str, *, connect_timeout_s: float = 10.0) -> None:
        self._broker = broker
        self._device_id = device_id
        self._connect_timeout_s = connect_timeout_s

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MqttLink]:
        """Connect, subscribe to the acks, say that we are online; disconnect on leaving."""
        client = self._client()
        link = MqttLink(client, self._device_id)
        ears = _Ears(link, asyncio.get_running_loop(), topics.ack(self._device_id))
        ears.listen_to(client)
        try:
            await anyio.to_thread.run_sync(self._open, client)
            client.loop_start()
            with anyio.fail_after(self._connect_timeout_s):
                await ears.ready
            client.publish(topics.state(self._device_id), _state(online=True), qos=1, retain=True)
            yield link
        except TimeoutError as error:
            raise UplinkDown(f"{self._where}: no CONNACK or SUBACK in time") from error
        except OSError as error:
            raise UplinkDown(f"{self._where}: {error}") from error
        finally:
            client.disconnect()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(client.loop_stop)

    @property
    def _where(self) -> str:
        return f"broker {self._broker.host}:{self._broker.port}"

    def _client(self) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._device_id,
            protocol=paho.MQTTv5,
            reconnect_on_failure=False,
        )
        # The delivery machine bounds what is on its way; paho must not hold back beneath it.
        client.max_inflight_messages_set(1000)
        if self._broker.username is not None:
            client.username_pw_set(self._broker.username, self._broker.password)
        client.will_set(topics.state(self._device_id), _state(online=False), qos=1, retain=True)
        return client

    def _open(self, client: paho.Client) -> None:
        # No session at the broker: the spool remembers what was not acknowledged.
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 0
        client.connect(
            self._broker.host,
            self._broker.port,
            keepalive=KEEPALIVE_S,
            clean_start=True,
            properties=properties,
        )


class _Ears:
    """paho's callbacks. They run in its thread, and only put what they hear on the loop."""

    def __init__(self, link: MqttLink, loop: asyncio.AbstractEventLoop, ack_topic: str) -> None:
        self.ready: asyncio.Future[None] = loop.create_future()
        self._link = link
        self._on_loop = loop.call_soon_threadsafe
        self._ack_topic = ack_topic

    def listen_to(self, client: paho.Client) -> None:
        """Set the callbacks of a client that is not connected yet."""
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect

    def _settle(self, problem: str | None) -> None:
        if self.ready.done():
            return
        if problem:
            self.ready.set_exception(UplinkDown(problem))
        else:
            self.ready.set_result(None)

    def _on_connect(self, client: paho.Client, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
        if reason.is_failure:
            self._on_loop(self._settle, f"the broker refused the connection: {reason}")
        else:
            client.subscribe(self._ack_topic, qos=0)

    def _on_subscribe(self, _c: Any, _u: Any, _m: Any, reasons: Any, _p: Any) -> None:
        refused = [str(reason) for reason in reasons if reason.is_failure]
        problem = f"subscribing to {self._ack_topic} was refused: {refused}" if refused else None
        self._on_loop(self._settle, problem)

    def _on_message(self, _c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        self._on_loop(self._link.hear, bytes(message.payload))

    def _on_publish(self, _c: Any, _u: Any, mid: int, reason: Any, _p: Any) -> None:
        self._on_loop(self._link.answered, mid, reason)

    def _on_disconnect(self, _c: Any, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
        self._on_loop(self._settle, f"disconnected: {reason}")
        self._on_loop(self._link.lost, f"disconnected: {reason}")


def _state(*, online: bool) -> bytes:
    return json.dumps({"online": online}).encode()
