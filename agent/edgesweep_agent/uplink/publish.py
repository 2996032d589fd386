"""How an envelope is published, and how large the packet is that carries it (MQTT 5, 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgesweep import topics
from edgesweep.records import Kind

HEARTBEAT_EXPIRES_S = 600
"""A broker need not keep a heartbeat longer; a result it must never let go of by itself."""

_FIXED_BYTES = 1 + 4
"""Packet type, and the most that the remaining length takes."""
_LENGTH_BYTES = 2
_PACKET_ID_BYTES = 2


@dataclass(frozen=True, slots=True)
class Form:
    """What is the same for all envelopes of a kind.

    Attributes:
        overhead_bytes: What the packet has beside the envelope.
    """

    topic: str
    properties: Properties
    overhead_bytes: int


@lru_cache(maxsize=32)
def form(device_id: str, kind: str) -> Form:
    """How envelopes of a kind are published; of a newer version's kind just like the others."""
    level = topics.up(device_id, Kind.EVENT).rpartition("/")[0]
    topic, properties = f"{level}/{kind}", described("application/x-protobuf")
    if kind == Kind.HEARTBEAT.value:
        properties.MessageExpiryInterval = HEARTBEAT_EXPIRES_S
    packed = len(properties.pack())  # type: ignore[no-untyped-call]
    beside = _LENGTH_BYTES + len(topic.encode()) + _PACKET_ID_BYTES + packed
    return Form(topic, properties, _FIXED_BYTES + beside)


def described(content_type: str, packet: int = PacketTypes.PUBLISH) -> Properties:
    """Properties that say what a payload is."""
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    properties.ContentType = content_type
    properties.UserProperty = ("schema", "1")
    return properties
