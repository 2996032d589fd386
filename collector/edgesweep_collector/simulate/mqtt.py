"""Simulated devices at an MQTT 5 broker: one client each, all on one event loop, without threads.

paho offers its sockets to a loop of others (``on_socket_open`` and its siblings), so that a
thousand devices are a thousand file descriptors and no more. Only the connect, which blocks, is
done in a thread.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
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

from .line import Caller, LineDown, Passed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from edgesweep.delivery import Key, Parcel

KEEPALIVE_S = 60
_CONNECT_WITHIN_S = 10.0
_DIALLING = 16
_NO_SUBSCRIBERS = 0x10


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is, and the login if it wants one."""

    host: str
    port: int
    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"broker {self.host}:{self.port}"


class MqttDial:
    """Connects devices to a broker, a few at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._dialling = anyio.CapacityLimiter(_DIALLING)

    @asynccontextmanager
    async def __call__(self, caller: Caller) -> AsyncIterator[MqttLine]:
        """See :class:`.line.Dial`."""
        client = self._client(caller)
        line = MqttLine(client, caller)
        try:
            await anyio.to_thread.run_sync(self._open, client, limiter=self._dialling)
            with anyio.fail_after(_CONNECT_WITHIN_S):
                await line.ready
            line.say(online=True)
            yield line
            line.say(online=False)
        except TimeoutError as error:
            raise LineDown(f"{self._broker}: no CONNACK or SUBACK in time") from error
        except OSError as error:
            raise LineDown(f"{self._broker}: {error}") from error
        finally:
            line.close()

    def _client(self, caller: Caller) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=caller.device_id,
            protocol=paho.MQTTv5,
            reconnect_on_failure=False,
        )
        # The delivery machine bounds what is on its way.
        client.max_inflight_messages_set(1000)
        if self._broker.username is not None:
            client.username_pw_set(self._broker.username, self._broker.password)
        topic = topics.state(caller.device_id)
        client.will_set(topic, _state(caller, online=False), qos=1, retain=True)
        return client

    def _open(self, client: paho.Client) -> None:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 0
        client.connect(
            self._broker.host,
            self._broker.port,
            keepalive=KEEPALIVE_S,
            clean_start=True,
            properties=properties,
        )


class MqttLine:
    """One device's connection. All but ``connect`` happens on the event loop.

    Attributes:
        ready: Done once the device is connected, and subscribed to its acks.
    """

    def __init__(self, client: paho.Client, caller: Caller) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self._client = client
        self._caller = caller
        self._sent: dict[int, Key] = {}
        self._heard: deque[Ack | Passed] = deque()
        self._down: str | None = None
        client.on_socket_open = self._on_socket_open
        client.on_socket_close = self._on_socket_close
        client.on_socket_register_write = self._on_wants_to_write
        client.on_socket_unregister_write = self._on_wrote
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect

    async def send(self, parcel: Parcel) -> None:
        """Give one envelope to paho, which never holds more than the delivery window."""
        topic = topics.up(self._caller.device_id, Kind(parcel.topic_kind))
        info = self._client.publish(topic, parcel.data, qos=1)
        if info.rc != paho.MQTT_ERR_SUCCESS:
            raise LineDown(paho.error_string(info.rc))
        self._sent[info.mid] = parcel.key

    def heard(self) -> list[Ack | Passed]:
        """See :class:`.line.Line`; also looks after pings, and so is to be asked now and then."""
        self._client.loop_misc()
        if self._heard:
            found = list(self._heard)
            self._heard.clear()
            return found
        if self._down is not None:
            raise LineDown(self._down)
        return []

    def say(self, *, online: bool) -> None:
        """Say on the retained topic whether the device is there."""
        topic = topics.state(self._caller.device_id)
        self._client.publish(topic, _state(self._caller, online=online), qos=1, retain=True)

    def close(self) -> None:
        """Disconnect in good order if that is still possible, and let go of the socket."""
        self._client.disconnect()
        self._client.loop_write()
        sock = self._client.socket()
        if sock is not None:
            self._loop.remove_reader(sock)
            self._loop.remove_writer(sock)
            sock.close()
        if self.ready.done():
            self.ready.exception()  # it was told, or nobody asks any more
        else:
            self.ready.cancel()

    def _on_socket_open(self, _client: Any, _u: Any, sock: Any) -> None:
        self._on_loop(self._loop.add_reader, sock, self._client.loop_read)

    def _on_wants_to_write(self, _client: Any, _u: Any, sock: Any) -> None:
        self._on_loop(self._loop.add_writer, sock, self._client.loop_write)

    def _on_socket_close(self, _client: Any, _u: Any, sock: Any) -> None:
        self._loop.remove_reader(sock)
        self._loop.remove_writer(sock)

    def _on_wrote(self, _client: Any, _u: Any, sock: Any) -> None:
        self._loop.remove_writer(sock)

    def _on_loop(self, add: Any, sock: Any, call: Any) -> None:
        if threading.get_ident() == self._thread:
            add(sock, call)
        else:
            self._loop.call_soon_threadsafe(self._if_open, add, sock, call)

    def _if_open(self, add: Any, sock: Any, call: Any) -> None:
        if sock.fileno() >= 0:
            add(sock, call)

    def _on_connect(self, client: paho.Client, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
        if reason.is_failure:
            self._lost(f"the broker refuses the connection: {reason}")
        else:
            client.subscribe(topics.ack(self._caller.device_id), qos=0)

    def _on_subscribe(self, _c: Any, _u: Any, _m: Any, reasons: Any, _p: Any) -> None:
        refused = [str(reason) for reason in reasons if reason.is_failure]
        if refused:
            self._lost(f"subscribing to its acks was refused: {refused[0]}")
        elif not self.ready.done():
            self.ready.set_result(None)

    def _on_message(self, _c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        try:
            self._heard.append(decode_ack(bytes(message.payload)))
        except WireError as error:
            self._down = f"no ack on the ack topic: {error}"
        self._caller.wake()

    def _on_publish(self, _c: Any, _u: Any, mid: int, reason: Any, _p: Any) -> None:
        key = self._sent.pop(mid, None)
        if key is not None:
            handed_on = not reason.is_failure and reason.value != _NO_SUBSCRIBERS
            self._heard.append(Passed(key, handed_on))
            if not handed_on:
                self._caller.wake()

    def _on_disconnect(self, _c: Any, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
        self._lost(f"disconnected: {reason}")

    def _lost(self, why: str) -> None:
        self._down = self._down or why
        if not self.ready.done():
            self.ready.set_exception(LineDown(why))
        self._caller.wake()


def _state(caller: Caller, *, online: bool) -> bytes:
    """As an agent says it."""
    told = {
        "online": online,
        "connection": caller.connection,
        "epoch": f"{caller.epoch:016x}",
        "boot_id": caller.boot_id,
        "agent_version": caller.agent_version,
        "ts_ns": caller.wall_ns,
    }
    return json.dumps(told).encode()
