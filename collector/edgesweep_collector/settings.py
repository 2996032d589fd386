"""The collector's settings: one TOML file, checked as a whole before anything starts.

Every table and key is listed here; an unknown or ill-typed one is an error that names it.
Secrets are never in the file itself, only the paths of the files that hold them.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeGuard

import msgspec

from edgesweep.complaints import readable

from .errors import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class ArchiveSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[archive]``: a database URL such as ``sqlite:////var/lib/edgesweep/archive.db``.

    Attributes:
        password_file: PostgreSQL's password, which is then not in the URL.
        keep_telemetry: How long readings stay, such as ``90d``; results stay for ever.
        keep_heartbeats: The same for heartbeats.
        wait_for_clock: How long a record of an unset clock waits for that clock to be set,
            before its time is reckoned from when it came.
    """

    url: str
    password_file: str | None = None
    keep_telemetry: str = "90d"
    keep_heartbeats: str = "30d"
    wait_for_clock: str = "15m"


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[*.tls]``: whom we trust, and who we are.

    Attributes:
        denylist_file: Serial numbers (hex) and common names that are refused although their
            certificates are good, one a line; read again when it changes.
    """

    ca_file: str
    cert_file: str
    key_file: str
    denylist_file: str | None = None
    server_name: str | None = None


class GrpcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[grpc]``: ``host:port`` to listen on; port 0 lets the system choose."""

    listen: str
    tls: TlsSettings | None = None


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[mqtt]``: the broker to connect to, and the files that hold the login, if there is one.

    Attributes:
        share: With a name, collectors that have the same one share the work between them.
    """

    host: str
    port: Port = 1883
    client_id: str = "edgesweep-collector"
    share: str | None = None
    username_file: str | None = None
    password_file: str | None = None
    tls: TlsSettings | None = None


class InfluxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[influx]``: where the projection writes; the token's file if the server wants one."""

    url: str
    bucket: str
    org: str = ""
    token_file: str | None = None


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[http]``: ``host:port`` of health, metrics and the read-only JSON.

    Attributes:
        token_file: What a caller has to bring as ``Authorization: Bearer``; an address that is
            not of the loopback wants it, or a certificate by ``tls``.
    """

    listen: str
    token_file: str | None = None
    tls: TlsSettings | None = None


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[log]``: the least severe line that is written."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. A transport, projection or server without its table is not started."""

    archive: ArchiveSettings
    grpc: GrpcSettings | None = None
    mqtt: MqttSettings | None = None
    influx: InfluxSettings | None = None
    http: HttpSettings | None = None
    log: LogSettings = LogSettings()


@dataclass(frozen=True, slots=True)
class Listen:
    """An address to listen on."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def load(path: Path) -> Settings:
    """The settings in a TOML file.

    Raises:
        SettingsError: it cannot be read, is not TOML, or has an unknown or ill-typed key.
    """
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error
    try:
        settings = msgspec.convert(_anchored(tree, path.resolve().parent), Settings)
        for key, table in (("grpc.listen", settings.grpc), ("http.listen", settings.http)):
            if table is not None:
                listen(table.listen, key)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: {readable(str(error))}") from error
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
    return settings


def _anchored(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The tree with its file names, and a relative SQLite file, taken from ``folder``."""
    anchored = {name: _with_files(value, folder) for name, value in tree.items()}
    url = tree["archive"].get("url") if isinstance(tree.get("archive"), dict) else None
    relative = re.fullmatch(r"sqlite:///([^/].*)", url) if _is_text(url) else None
    if relative:
        anchored["archive"]["url"] = f"sqlite:///{folder / relative[1]}"
    return anchored


def _with_files(table: Any, folder: Path) -> Any:
    if not isinstance(table, dict):
        return table
    return {
        key: str(folder / value)
        if key.endswith("_file") and _is_text(value)
        else _with_files(value, folder)
        for key, value in table.items()
    }


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def listen(text: str, key: str) -> Listen:
    """The address in ``host:port`` or ``[v6]:port``.

    Raises:
        SettingsError: anything else; ``key`` says where it was found.
    """
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:]+)):(\d{1,5})", text)
    if match is None or int(match[3]) > 65535:
        raise SettingsError(f"{key}: {text!r} is not host:port")
    return Listen(match[1] or match[2], int(match[3]))


def secret(path: str, key: str) -> str:
    """The text of a secret's file, without the line end that editors add.

    Raises:
        SettingsError: it cannot be read; ``key`` says which setting named it.
    """
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise SettingsError(f"{key}: cannot read {path}: {reason}") from error
