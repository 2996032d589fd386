"""The ways to the collector, by the name a configuration calls them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from edgesweep_agent.settings import GrpcSettings, MqttSettings

    from .base import Uplink
    from .presence import Presence

    Announce = Callable[[], Awaitable[Presence]]


def _grpc(settings: GrpcSettings, device_id: str, _announce: Announce) -> Uplink:
    # c-ares does not recover from a network that was away (grpc/grpc#30462, #34709).
    os.environ.setdefault("GRPC_DNS_RESOLVER", "native")
    # Imported late: grpc costs a device 10 MiB that a site on MQTT need not spend.
    from .grpc import GrpcUplink  # noqa: PLC0415

    return GrpcUplink(settings, device_id)


def _mqtt(settings: MqttSettings, device_id: str, announce: Announce) -> Uplink:
    from .mqtt import MqttUplink  # noqa: PLC0415

    return MqttUplink(settings, device_id, announce)


UPLINKS: dict[str, Callable[..., Uplink]] = {"grpc": _grpc, "mqtt": _mqtt}
