"""The daemon's configuration: one TOML file into frozen values, unknown keys refused.

Secrets are named by file, never written here. Paths are relative to the file's own folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from edgesweep.complaints import readable
from edgesweep.topics import is_device_id

from .errors import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable


Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Positive = Annotated[int, msgspec.Meta(gt=0)]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0)]


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a configuration file."""


class DeviceSettings(Struct, frozen=True):
    """Who this is; ``labels`` are the operator's own (site, line, asset, ...)."""

    id: str
    labels: dict[str, str] = {}


class SpoolSettings(Struct, frozen=True):
    """Where the outbox lives, and how much of the disk it may take.

    Attributes:
        max_size: The most that waits, such as ``256MiB``; telemetry may use four fifths of it.
        min_free: What is left free on the disk for others; telemetry stops there, results may
            use half of it.
        keep_delivered: How much of delivered results stays, in case the archive asks again.
    """

    path: Path
    max_size: str = "256MiB"
    min_free: str = "64MiB"
    keep_delivered: str = "4MiB"


class DeliverySettings(Struct, frozen=True):
    """How fast and how patiently records leave; :class:`edgesweep.delivery.Policy` explains.

    Attributes:
        spread_s: After a connection that was good, all devices of a site reconnect within this.
    """

    window_count: Positive = 100
    window_bytes: Positive = 1024 * 1024
    resend_s: PositiveSeconds = 10.0
    resend_max_s: PositiveSeconds = 300.0
    backoff_s: PositiveSeconds = 1.0
    backoff_max_s: PositiveSeconds = 60.0
    spread_s: Annotated[float, msgspec.Meta(ge=0)] = 15.0
    stable_s: PositiveSeconds = 60.0
    stalled_s: PositiveSeconds = 60.0


class TlsSettings(Struct, frozen=True):
    """Mutual TLS: whom we trust, and who we are. The certificate names this device.

    Attributes:
        ca_file: Certificates of the authority that signed the collector's or the broker's.
        cert_file: Ours, signed for this device's id; ``edgesweep-agent csr`` makes its request.
        key_file: Its private key, readable by this user alone.
        server_name: The name in the other side's certificate, if it is not the host's.
    """

    ca_file: Path
    cert_file: Path
    key_file: Path
    server_name: str | None = None


class ControlSettings(Struct, frozen=True):
    """The Unix socket by which the command line and the sweep reach the daemon."""

    socket: Path


class GrpcSettings(Struct, frozen=True, tag="grpc", tag_field="kind"):
    """A collector reached directly."""

    address: str
    tls: TlsSettings | None = None

    @property
    def kind(self) -> str:
        """The uplink it configures."""
        return "grpc"


class MqttSettings(Struct, frozen=True, tag="mqtt", tag_field="kind"):
    """Collectors reached through a broker.

    Attributes:
        max_packet_size: The most bytes that one publish may have, where the broker does not tell.
    """

    host: str
    port: Port = 1883
    username_file: Path | None = None
    password_file: Path | None = None
    max_packet_size: Positive | None = None
    tls: TlsSettings | None = None

    @property
    def kind(self) -> str:
        """The uplink it configures."""
        return "mqtt"

    def username(self) -> str | None:
        """The name to log in with, read from its file."""
        return read_secret(self.username_file)

    def password(self) -> str | None:
        """The password, read from its file."""
        return read_secret(self.password_file)


class PlanSettings(Struct, frozen=True):
    """A plan this device may run. ``run`` is ``on_demand``, or ``once`` after start."""

    file: Path
    run: Literal["on_demand", "once"] = "on_demand"


class LogSettings(Struct, frozen=True):
    """How much is logged."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(Struct, frozen=True):
    """The whole configuration of the daemon; ``telemetry_s`` 0 sends no telemetry."""

    device: DeviceSettings
    spool: SpoolSettings
    control: ControlSettings
    uplink: GrpcSettings | MqttSettings
    delivery: DeliverySettings = DeliverySettings()
    plans: dict[str, PlanSettings] = {}
    log: LogSettings = LogSettings()
    heartbeat_s: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    telemetry_s: Annotated[float, msgspec.Meta(ge=0)] = 60.0


T = TypeVar("T")


def load(
    path: Path,
    kind: type[T],
    prepare: Callable[[dict[str, Any]], dict[str, Any]] = lambda tree: tree,
) -> T:
    """Read a TOML file into a frozen value of ``kind``.

    Args:
        path: The file; paths in it are relative to its folder.
        kind: What it holds.
        prepare: What is done to the tree first; raises ``ValueError`` for people.

    Raises:
        SettingsError: naming the file, the key's path and what was wrong with it.
    """
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error
    anchored = path.resolve().parent
    try:
        return msgspec.convert(prepare(tree), kind, dec_hook=lambda t, v: _path(anchored, t, v))
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: {readable(str(error))}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from error


def load_settings(path: Path) -> Settings:
    """Read the daemon's configuration.

    Raises:
        SettingsError: also for a device id that cannot be one.
    """
    settings = load(path, Settings)
    if not is_device_id(settings.device.id):
        raise SettingsError(
            f"{path}: device.id: {settings.device.id!r} must be 1 to 63 of a-z, 0-9 and -"
        )
    return settings


def read_secret(path: Path | None) -> str | None:
    """The first line of a file that holds a secret; ``None`` without a file.

    Raises:
        SettingsError: the file cannot be read. The secret itself is in no message.
    """
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").split("\n", 1)[0].strip()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error


def read_header(path: Path | None) -> str | None:
    """A secret that is to be sent as a header.

    Raises:
        SettingsError: it cannot be read, or has characters that no header may have.
    """
    secret = read_secret(path)
    if secret is not None and not (secret.isascii() and secret.isprintable()):
        raise SettingsError(f"{path}: has characters that an HTTP header cannot carry")
    return secret


def _path(anchored: Path, kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return anchored / Path(value).expanduser()
    raise TypeError(f"{kind} is no type of a configuration")
