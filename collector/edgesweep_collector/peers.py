"""Who is at the other end of a connection, by its certificate, and who is not to be let in."""

from __future__ import annotations

import logging
import re
import ssl
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import SettingsError
from .tls import Watched

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger(__name__)

_SERIAL = re.compile(r"(?:serial=)?(?:0x)?([0-9a-f]+(?::[0-9a-f]+)*):?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Peer:
    """What a certificate says that TLS found genuine."""

    common_name: str
    serial: int
    not_after: datetime

    def __str__(self) -> str:
        return f"{self.common_name!r} (serial {self.serial:X})"


def peer_of_pem(pem: bytes) -> Peer:
    """The peer of a certificate in PEM; one that is named twice, or not at all, has no name."""
    from cryptography import x509  # noqa: PLC0415 -- not needed where there is no gRPC

    found = x509.load_pem_x509_certificate(pem)
    names = found.subject.get_attributes_for_oid(x509.oid.NameOID.COMMON_NAME)
    name = str(names[0].value) if len(names) == 1 else ""
    return Peer(name, found.serial_number, found.not_valid_after_utc)


def peer_of_dict(found: Mapping[str, Any]) -> Peer:
    """The peer of a certificate as :meth:`ssl.SSLSocket.getpeercert` tells it."""
    subject = [pair for rdn in found.get("subject", ()) for pair in rdn]
    names = [value for key, value in subject if key == "commonName"]
    until_s = ssl.cert_time_to_seconds(found["notAfter"])
    return Peer(
        names[0] if len(names) == 1 else "",
        int(found["serialNumber"], 16),
        datetime.fromtimestamp(until_s, timezone.utc),
    )


class Denylist:
    """Serial numbers and common names that are refused although their certificates are good.

    One a line; what follows a ``#`` is for people. Serial numbers are hex as OpenSSL prints them,
    in any case, with or without colons. The file is looked at again whenever it is asked.

    Args:
        path: The file; without one nobody is denied.
        key: The setting that named it.

    Raises:
        SettingsError: it cannot be read.
    """

    def __init__(self, path: str | None, key: str) -> None:
        self._path = path
        self._key = key
        self._file = Watched(*filter(None, [path]))
        self._names: frozenset[str] = frozenset()
        self._serials: frozenset[int] = frozenset()
        self._read()

    def denies(self, name: str, serial: int | None = None) -> bool:
        """Whether somebody is on it."""
        self._look()
        return name in self._names or serial in self._serials

    @property
    def names(self) -> frozenset[str]:
        """Every entry as it stands there; those that are serial numbers are names as well."""
        return self._names

    def _look(self) -> None:
        if not self._file.changed():
            return
        try:
            self._read()
        except SettingsError as error:
            # A list that cannot be read lets nobody in again who was on it.
            _log.error("the denylist stays as it was: %s", error)
        else:
            count = len(self._names)
            _log.info("denylist read again", extra={"key": self._key, "entries": count})

    def _read(self) -> None:
        if self._path is None:
            return
        try:
            text = Path(self._path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise SettingsError(f"{self._key}: cannot read {self._path}: {reason}") from error
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        entries = [line for line in lines if line]
        found = [_SERIAL.fullmatch(entry) for entry in entries]
        self._names = frozenset(entries)
        self._serials = frozenset(int(one[1].replace(":", ""), 16) for one in found if one)
