"""The connection to an MQTT broker: paho's thread on one side, the event loop on the other.

paho calls back in its own thread, and an exception there kills it while ``is_connected()`` stays
true; so every callback is guarded, and does no more than put what it heard on the loop.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import anyio.to_thread
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgesweep import topics
from edgesweep_collector.errors import SettingsError
from edgesweep_collector.settings import MqttSettings, TlsSettings, secret
from edgesweep_collector.tls import ClientContext, Renewable, Role

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_log = logging.getLogger(__name__)

IN_FLIGHT = 64
"""Messages the broker may send ahead of our PUBACKs; in our CONNECT, and mosquitto keeps to it."""

_KEEPALIVE_S = 30
_CONNECT_WITHIN_S = 3.0
_LONGEST_DELAY_S = 64
# A connection that lasted this long was a good one. Until then the delay goes on growing, else
# two clients with one id throw each other out every second (eclipse-mosquitto/mosquitto#631). Of
# those the one whose turns are shorter waits longer and longer; a broker that is restarted twice
# in a minute is not waited for.
_STABLE_S = 10.0
_SESSION_TAKEN_OVER = 0x8E
# A broker whose access list is put right needs no restart of ours.
_RESUBSCRIBE_S = 30.0


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is, the login if it wants one, and with whom the work is shared.

    Attributes:
        share: Collectors that subscribe under one such name get each message once between them.
    """

    host: str
    port: int
    client_id: str
    username: str | None = None
    password: str | None = None
    share: str | None = None
    tls: TlsSettings | None = None

    @property
    def subscription(self) -> str:
        """What is subscribed to: everything devices send, or our share of it."""
        return topics.ALL_UP if self.share is None else f"$share/{self.share}/{topics.ALL_UP}"

    def __repr__(self) -> str:
        return f"Broker({self.host}:{self.port} as {self.client_id})"


def broker(settings: MqttSettings) -> Broker:
    """The broker of ``[mqtt]``, its secrets read from their files.

    Raises:
        SettingsError: one of the files cannot be read, or the share is no level of a topic.
    """
    username, password = settings.username_file, settings.password_file
    if settings.share is not None and not re.fullmatch(r"[^/+#\0]+", settings.share):
        raise SettingsError(f"mqtt.share: {settings.share!r} is to be a word without / + #")
    return Broker(
        host=settings.host,
        port=settings.port,
        client_id=_client_id(settings),
        username=secret(username, "mqtt.username_file") if username else None,
        password=secret(password, "mqtt.password_file") if password else None,
        share=settings.share,
        tls=settings.tls,
    )


def _client_id(settings: MqttSettings) -> str:
    """The id of the settings; of collectors that share the work each needs one of its own."""
    is_default = settings.client_id == MqttSettings(host="").client_id
    if settings.share is None or not is_default:
        return settings.client_id
    return f"{settings.client_id}-{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Arrived:
    """One message. ``mid`` is what a PUBACK names; it means something in its connection only."""

    connection: int
    mid: int
    qos: int
    topic: str
    payload: bytes
    retained: bool


class Listener(Protocol):
    """Told on the event loop what the connection heard."""

    def arrived(self, message: Arrived) -> None:
        """A message came."""

    def well(self) -> None:
        """Connected and subscribed."""

    def unwell(self, problem: str) -> None:
        """Not connected, or not subscribed; told again at each attempt that fails."""


class Connection:
    """A subscription to everything devices send, made again for as long as it takes.

    Args:
        broker: Where to connect.
        listener: Who is told, on the loop that :meth:`start` was called on.

    Attributes:
        tls: How the connection is protected; ``None`` if it is not.

    Raises:
        SettingsError: a file of ``broker.tls`` is of no use.
    """

    def __init__(self, broker: Broker, listener: Listener) -> None:
        self._broker = broker
        self._listener = listener
        self._number = 0
        self._up_since: float | None = None
        self._short = 0
        self._delay_s = 1
        self._refused = False
        self._said = ""
        self.tls = _context(broker.tls)
        self._client = self._made()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to connect, in a thread of paho's."""
        self._loop = loop
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        # No session: what was not acked by us is sent again by the device, not by the broker.
        properties.SessionExpiryInterval = 0
        properties.ReceiveMaximum = IN_FLIGHT
        self._client.connect_async(
            self._broker.host,
            self._broker.port,
            keepalive=_KEEPALIVE_S,
            clean_start=True,
            properties=properties,
        )
        self._client.loop_start()

    async def stop(self) -> None:
        """Disconnect after what was published is sent, and end the thread."""
        self._client.disconnect()
        await anyio.to_thread.run_sync(self._client.loop_stop)

    def publish(self, topic: str, payload: bytes) -> bool:
        """Publish at QoS 0; ``False`` if there is no connection, and then it is not kept."""
        return self._client.publish(topic, payload, qos=0).rc == paho.MQTT_ERR_SUCCESS

    def puback(self, message: Arrived) -> None:
        """Tell the broker that a message is dealt with, unless its connection is gone."""
        if message.qos == 1 and message.connection == self._number:
            self._client.ack(message.mid, message.qos)

    def _made(self) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._broker.client_id,
            protocol=paho.MQTTv5,
            manual_ack=True,
        )
        client.connect_timeout = _CONNECT_WITHIN_S
        client.reconnect_delay_set(1, _LONGEST_DELAY_S)
        if self._broker.username is not None:
            client.username_pw_set(self._broker.username, self._broker.password)
        if self.tls is not None:
            client.tls_set_context(self.tls)
        client.on_pre_connect = self._guarded(self._on_pre_connect)
        client.on_log = self._guarded(self._on_log)
        client.on_connect = self._guarded(self._on_connect)
        client.on_connect_fail = self._guarded(self._on_connect_fail)
        client.on_subscribe = self._guarded(self._on_subscribe)
        client.on_message = self._guarded(self._on_message)
        client.on_disconnect = self._guarded(self._on_disconnect)
        return client

    def _guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except Exception:  # noqa: BLE001 -- it would end paho's thread, and nobody would know
                _log.exception("a callback of the MQTT client failed")

        return call

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(what, *arguments)

    def _on_pre_connect(self, _client: paho.Client, _u: Any) -> None:
        self._refused = False
        if self.tls is not None:
            self.tls.renew()

    def _on_log(self, _client: paho.Client, _u: Any, level: int, text: str) -> None:
        # Where paho says what TLS said, once the handshake is over.
        # A refusal may be lost to the reset that follows it: what one attempt heard stays known.
        if level == paho.MQTT_LOG_ERR and "SSL: " in text:
            self._said = text

    def _on_connect(self, _c: paho.Client, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
        if reason.is_failure:
            self._refused = True
            self._tell(self._listener.unwell, f"the broker refuses the connection: {reason}")
            return
        self._number += 1
        self._said = ""
        self._up_since = time.monotonic()
        self._subscribe(self._number)

    def _on_connect_fail(self, _client: paho.Client, _u: Any) -> None:
        # paho calls this while it handles the exception, and hands over nothing of it.
        self._tell(self._listener.unwell, _why_not(sys.exc_info()[1]))

    def _on_subscribe(self, _c: Any, _u: Any, _mid: Any, reasons: Any, _p: Any) -> None:
        refused = [str(reason) for reason in reasons if reason.is_failure]
        if refused:
            what = self._broker.subscription
            problem = f"the broker refuses the subscription to {what}: {refused[0]}"
            self._tell(self._listener.unwell, problem)
            self._tell(self._subscribe_later, self._number)
        else:
            self._tell(self._listener.well)

    def _subscribe_later(self, connection: int) -> None:
        self._loop.call_later(_RESUBSCRIBE_S, self._subscribe, connection)

    def _subscribe(self, connection: int) -> None:
        if connection == self._number:
            self._client.subscribe(self._broker.subscription, qos=1)

    def _on_message(self, _c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        arrived = Arrived(
            connection=self._number,
            mid=message.mid,
            qos=message.qos,
            topic=message.topic,
            payload=bytes(message.payload),
            retained=message.retain,
        )
        self._tell(self._listener.arrived, arrived)

    def _on_disconnect(self, client: paho.Client, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
        # A message id of this connection means another message in the next.
        self._number += 1
        was_up = self._up_since is not None
        lasted_s = time.monotonic() - self._up_since if self._up_since is not None else 0.0
        self._up_since = None
        self._short = 0 if lasted_s >= _STABLE_S else self._short + was_up
        self._delay_s = 1 if lasted_s >= _STABLE_S else min(2 * self._delay_s, _LONGEST_DELAY_S)
        client.reconnect_delay_set(self._delay_s, _LONGEST_DELAY_S)
        if was_up:
            self._tell(self._listener.unwell, self._lost(reason))
        elif not self._refused:
            self._tell(self._listener.unwell, self._turned_away())

    def _lost(self, reason: Any) -> str:
        if reason.value == _SESSION_TAKEN_OVER:
            return f"client id {self._broker.client_id} is in use elsewhere"
        if self._short > 1:
            # mosquitto 2.0 closes the older of two connections with one id without saying why.
            who = self._broker.client_id
            return f"connections keep ending early: is client id {who} in use elsewhere?"
        return f"connection lost: {reason}"

    def _turned_away(self) -> str:
        """Closed before any answer: under TLS 1.3 that is how a certificate is refused."""
        _, _, said = self._said.partition("SSL: ")
        if self._broker.tls is None:
            return "the broker closes the connection without an answer: does it want TLS?"
        why = said.rstrip("]") or "without a word"
        return (
            f"the broker closes the connection: {why}; does it accept the certificate in "
            f"{self._broker.tls.cert_file}? its log says"
        )


def _context(tls: TlsSettings | None) -> ClientContext | None:
    return None if tls is None else ClientContext.of(Renewable(tls, "mqtt.tls", Role.CLIENT))


def _why_not(error: BaseException | None) -> str:
    """Why there is no connection, from what was raised."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of the broker is not accepted: {error.verify_message}; "
            "mqtt.tls.ca_file, mqtt.host and server_name say whose it should be"
        )
    if isinstance(error, ssl.SSLError):
        return f"no TLS with the broker: {error.reason or error}"
    return "the broker does not answer"
