"""The MQTT 5 transport: subscribes to what devices publish, acks on a topic of each device.

A PUBACK only frees the broker; the device deletes a record on our ack alone. That is why nothing
here needs a session at the broker, and why neither the DUP nor the retain flag decides anything.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import paho.mqtt.client as paho
from edgesweep import topics
from edgesweep.envelope import Ack, encode_ack
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgesweep_collector.settings import MqttSettings, secret

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from edgesweep_collector.counters import Counters

    from .accept import Acceptor

_log = logging.getLogger(__name__)

_KEEPALIVE_S = 30
# What the broker may send before our PUBACK; mosquitto 2.0 sends 20 at a time by default.
_IN_FLIGHT = 64
_LONGEST_DELAY_S = 64
# A connection that lasted this long was a good one; until then the delay goes on growing, else
# two clients with one id would throw each other out every second (mosquitto#631).
_STABLE_S = 60.0
_ANSWER_WITHIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is, and the login if it wants one."""

    host: str
    port: int
    client_id: str
    username: str | None = None
    password: str | None = None


def broker(settings: MqttSettings) -> Broker:
    """The broker of ``[mqtt]``, its secrets read from their files.

    Raises:
        SettingsError: one of the files cannot be read.
    """
    username, password = settings.username_file, settings.password_file
    return Broker(
        host=settings.host,
        port=settings.port,
        client_id=settings.client_id,
        username=secret(username, "mqtt.username_file") if username else None,
        password=secret(password, "mqtt.password_file") if password else None,
    )


@dataclass(frozen=True, slots=True)
class _Arrived:
    """One message; ``mid`` means something only within its connection."""

    connection: int
    mid: int
    qos: int
    topic: str
    payload: bytes
    retained: bool


class MqttIngest:
    """One connection to a broker, made again for as long as it takes.

    Args:
        acceptor: Where envelopes go.
        counters: What is counted.
        broker: Where to connect.
    """

    def __init__(self, acceptor: Acceptor, counters: Counters, broker: Broker) -> None:
        self._acceptor = acceptor
        self._counters = counters
        self._broker = broker
        self._client: paho.Client | None = None
        self._connection = 0
        self._unanswered = 0
        self._problem: str | None = "not connected yet"

    async def start(self) -> None:
        """Begin to connect; a broker that is not there is waited for."""
        self._in, self._out = anyio.create_memory_object_stream[_Arrived](16 * _IN_FLIGHT)
        self._pumping = anyio.CancelScope()
        self._pumped = anyio.Event()
