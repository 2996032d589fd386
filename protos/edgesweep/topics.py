"""MQTT topics and device ids: who may speak, and where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .records import Kind

_DEVICE_ID = re.compile(r"[a-z0-9-]{1,63}")
_UP = re.compile(r"edgesweep/v1/([a-z0-9-]{1,63})/up/([a-z]+)")

ALL_UP = "edgesweep/v1/+/up/+"
"""What a collector subscribes to."""


def is_device_id(text: str) -> bool:
    """Whether text may name a device: 1 to 63 of ``a-z``, ``0-9`` and ``-``.

    The set keeps an id a whole, literal level of a topic and a valid DNS label, so that it
    can also be the common name of a certificate.
    """
    return _DEVICE_ID.fullmatch(text) is not None


def up(device_id: str, kind: Kind) -> str:
    """Where a device publishes envelopes of a kind."""
    return f"edgesweep/v1/{device_id}/up/{kind.value}"


def ack(device_id: str) -> str:
    """Where a device is told what the archive holds."""
    return f"edgesweep/v1/{device_id}/down/ack"


def state(device_id: str) -> str:
    """The retained topic that says whether a device is online."""
    return f"edgesweep/v1/{device_id}/state"


def parse_up(topic: str) -> tuple[str, str] | None:
    """``(device_id, kind)`` of a topic under ``up/``; ``None`` for any other topic."""
    match = _UP.fullmatch(topic)
    return (match[1], match[2]) if match else None
