"""Where simulated devices connect, from a collector's settings or from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep_collector.errors import SettingsError
from edgesweep_collector.settings import Listen, MqttSettings, Settings, listen, secret

if TYPE_CHECKING:
    from .line import Dial

TRANSPORTS = ("mqtt", "grpc")


def dial(transport: str, settings: Settings | None, to: str | None, *, anywhere: bool) -> Dial:
    """How the devices connect.

    Args:
        transport: ``mqtt`` or ``grpc``.
        settings: Of the collector: they have the broker and its login, or the port of gRPC.
        to: ``host:port`` instead of theirs.
        anywhere: Whether it may be another machine.

    Raises:
        SettingsError: there is no such transport in the settings, it wants certificates, or it
            is not on this machine.
    """
    where = _address(transport, settings, to)
    if not anywhere and not where.is_loopback:
        raise SettingsError(
            f"{where} is not this machine: invented results would be among real ones there; "
            "say --anywhere if that is meant"
        )
    if transport == "grpc":
        from .grpc import GrpcDial  # noqa: PLC0415 -- 30 MiB that MQTT alone does not need

        return GrpcDial(str(where))
    from .mqtt import Broker, MqttDial  # noqa: PLC0415 -- as for grpc

    username, password = _login(settings)
    return MqttDial(Broker(where.host, where.port, username, password))


def _address(transport: str, settings: Settings | None, to: str | None) -> Listen:
    if to is not None:
        return listen(to, "--to")
    found = None if settings is None else _reached(transport, settings)
    if found is None:
        raise SettingsError(f"no [{transport}] in the settings: name the place with --to HOST:PORT")
    return found


def _reached(transport: str, settings: Settings) -> Listen | None:
    table = settings.mqtt if transport == "mqtt" else settings.grpc
    if table is None:
        return None
    if table.tls is not None:
        raise SettingsError(
            f"[{transport}.tls]: simulated devices have no certificates; use a listener without "
            "TLS on the loopback, and name it with --to"
        )
    if isinstance(table, MqttSettings):
        return Listen(table.host, table.port)
    found = listen(table.listen, "grpc.listen")
    if found.port == 0:
        raise SettingsError("grpc.listen: port 0 is chosen by the system: name it with --to")
    return found


def _login(settings: Settings | None) -> tuple[str | None, str | None]:
    table = None if settings is None else settings.mqtt
    if table is None:
        return None, None
    username, password = table.username_file, table.password_file
    return (
        secret(username, "mqtt.username_file") if username else None,
        secret(password, "mqtt.password_file") if password else None,
    )
