"""The uplink over MQTT 5: QoS 1 up, the collector's acks down.

A broker's PUBACK is not a receipt: mosquitto 2.0.11 answers "Success" to what it then drops
(offline session over ``max_queued_messages``) and to what a kill loses (``autosave_interval``).
So no session is kept anywhere, each connection has a client of its own, and paho never holds more
than was published on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edgesweep import topics
from edgesweep_agent.core import alerts
from edgesweep_agent.errors import SettingsError

from . import reasons
from .base import Trouble, UplinkDown
from .mqtt_link import IN_FLIGHT, Ears, MqttLink
from .presence import state
from .publish import described

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from edgesweep_agent.settings import MqttSettings

    from .base import Told
    from .identity import Identity
    from .presence import Presence

_MAX_ACK_BYTES = 256 * 1024
_WITH_WILL = 0x04


@dataclass(frozen=True, slots=True)
class Pace:
    """Times of the transport, in seconds.

    Attributes:
        keepalive_s: A line that is silent for so long is asked whether it lives.
        connect_s: How long connecting, and a handshake, may take.
        accept_s: How long CONNACK and SUBACK may take.
        close_s: How long our goodbye may take, on a line that may be dead.
    """

    keepalive_s: int = 30
    connect_s: float = 5.0
    accept_s: float = 10.0
    close_s: float = 1.0


class MqttUplink:
    """A broker between this device and the collectors.

    Args:
        settings: Where it is, and how to log in.
        device_id: Our client id, and the name in our topics.
        announce: Makes the presence of the next connection.
        pace: How patient it is.
        wall_ns: Wall time in ns since 1970.

    Raises:
        SettingsError: a file with a secret cannot be read.
    """

    name = "mqtt"

    def __init__(
        self,
        settings: MqttSettings,
        device_id: str,
        announce: Callable[[], Awaitable[Presence]],
        pace: Pace = Pace(),
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        settings.username()
        settings.password()
        self.conflict = reasons.ends_early(device_id)
        self._presence: Presence | None = None
        self._wall_ns = wall_ns
        self._settings = settings
        self._device_id = device_id
        self._announce = announce
        self._pace = pace
        self._identity = _identity(settings, device_id)

    @property
    def trouble(self) -> Told | None:
        """A new certificate that is of no use."""
        return self._identity.trouble if self._identity else None

    async def renewed(self) -> bool:
        """Whether another certificate is on the disk, which the broker takes."""
        if self._identity is None:
            return False
        return await anyio.to_thread.run_sync(self._identity.renewed)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MqttLink]:
        """Connect, subscribe to the acks, say that we are online; disconnect on leaving."""
        # Its number is used up by a connection that stood, not by a try.
        self._presence = presence = self._presence or await self._announce()
        ts_ns = self._wall_ns()
        will = state(presence, ts_ns, online=False)
        client = await anyio.to_thread.run_sync(self._client, will)
        link = MqttLink(client, self._device_id, self._settings.max_packet_size)
        secure = self._identity is not None
        Ears(link, asyncio.get_running_loop(), self._device_id, secure=secure).listen_to(client)
        try:
            await anyio.to_thread.run_sync(self._open, client)
            await self._opened(link)
            self._presence = None
            link.announce(state(presence, ts_ns, online=True))
            yield link
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_close, client, self._pace.close_s)

    @property
    def _where(self) -> str:
        return f"broker {self._settings.host}:{self._settings.port}"

    async def _opened(self, link: MqttLink) -> None:
        with anyio.move_on_after(self._pace.accept_s):
            await link.opened.wait()
            link.check()
            return
        raise UplinkDown(f"{self._where}: no CONNACK or SUBACK within {self._pace.accept_s:g} s")

    def _client(self, will: bytes) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._device_id,
            protocol=paho.MQTTv5,
            reconnect_on_failure=False,
        )
        client.connect_timeout = self._pace.connect_s
        client.max_inflight_messages = IN_FLIGHT
        self._log_in(client)
        client.will_set(
            topics.state(self._device_id),
            will,
            qos=1,
            retain=True,
            properties=described("application/json", PacketTypes.WILLMESSAGE),
        )
        return client

    def _log_in(self, client: paho.Client) -> None:
        # Read anew each time: a password that is put right needs no restart.
        try:
            username, password = self._settings.username(), self._settings.password()
        except SettingsError as error:
            raise UplinkDown(str(error), Trouble.AUTH_FAILED) from error
        if username is not None:
            client.username_pw_set(username, password)
        if self._identity is not None:
            client.tls_set_context(self._identity.load())

    def _open(self, client: paho.Client) -> None:
        # No session at the broker: the spool remembers what was not acknowledged.
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 0
        properties.MaximumPacketSize = _MAX_ACK_BYTES
        try:
            client.connect(
                self._settings.host,
                self._settings.port,
                keepalive=self._pace.keepalive_s,
                clean_start=True,
                properties=properties,
            )
        except OSError as error:
            raise self._unopened(error) from error
        client.loop_start()

    def _unopened(self, error: OSError) -> UplinkDown:
        if isinstance(error, ssl.SSLCertVerificationError):
            said = alerts.unsatisfied(error.verify_message)
        elif isinstance(error, ssl.SSLError) or (
            self._identity is not None and isinstance(error, ConnectionResetError)
        ):
            said = alerts.refusal(str(error))
        else:
            return UplinkDown(f"{self._where}: {error}")
        return UplinkDown(f"{self._where}: {said}", Trouble.CERTIFICATE)


def _identity(settings: MqttSettings, device_id: str) -> Identity[ssl.SSLContext] | None:
    if settings.tls is None:
        return None
    # Imported late: a site without TLS need not have them in memory.
    from edgesweep_agent import tls  # noqa: PLC0415

    from .identity import Identity  # noqa: PLC0415

    def reach(context: ssl.SSLContext) -> None:
        tls.probe(settings.host, settings.port, context)

    return Identity(settings.tls, device_id, tls.ssl_context, reach)


def _close(client: paho.Client, within_s: float) -> None:
    """Say goodbye and end paho's thread, which would wait for a dead line's keepalive.

    The goodbye has the broker publish our will: one way to go offline, whatever the end.
    """
    client.disconnect(ReasonCode(PacketTypes.DISCONNECT, identifier=_WITH_WILL))
    line = client.socket()
    timer = threading.Timer(within_s, _cut, (line,))
    timer.start()
    client.loop_stop()
    timer.cancel()


def _cut(line: paho.SocketLike | None) -> None:
    if isinstance(line, socket.socket):
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
