"""The ways to the collector, by the name a configuration calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep_agent.settings import GrpcSettings, MqttSettings

    from .base import Uplink


def _grpc(settings: GrpcSettings, _device_id: str) -> Uplink:
    # Imported late: grpc costs a device 10 MiB that a site on MQTT need not spend.
    from .grpc import GrpcUplink  # noqa: PLC0415

    return GrpcUplink(settings.address)


def _mqtt(settings: MqttSettings, device_id: str) -> Uplink:
    from .mqtt import Broker, MqttUplink  # noqa: PLC0415

    broker = Broker(settings.host, settings.port, settings.username(), settings.password())
    return MqttUplink(broker, device_id)


UPLINKS: dict[str, Callable[..., Uplink]] = {"grpc": _grpc, "mqtt": _mqtt}
