"""Certificates and keys: judged when the collector starts, and taken again when they are renewed.

Renewed files need no restart: every handshake looks whether they changed. Files that do not fit
together (half a renewal) leave the old ones in use until they do.
"""

from __future__ import annotations

import logging
import ssl
import stat
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from .errors import SettingsError

if TYPE_CHECKING:
    import socket

    import grpc

    from .settings import TlsSettings

_log = logging.getLogger(__name__)

WARN_WITHIN = timedelta(days=14)
"""A certificate that runs out within this is warned about."""

_OPEN_TO_OTHERS = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP


class Role(Enum):
    """What a certificate is for."""

    SERVER = "serverAuth"
    CLIENT = "clientAuth"


class Watched:
    """Files of which one can ask whether they were replaced or written since last time."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths
        self._seen = self._stamps()

    def changed(self) -> bool:
        """Whether one of them is another than when this was last asked."""
        stamps = self._stamps()
        before, self._seen = self._seen, stamps
        return stamps != before

    def _stamps(self) -> list[tuple[int, ...] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Pems:
    """The files as they were read: whom we trust, who we are, and until when."""

    authority: bytes
    chain: bytes
    key: bytes
    not_before: datetime
    not_after: datetime

    def __repr__(self) -> str:
        return f"Pems(good until {self.not_after:%Y-%m-%d %H:%M}Z)"


class Renewable:
    """The files of one ``[*.tls]`` table.

    Args:
        tls: Where they are.
        table: The table's name, such as ``grpc.tls``, for what is said of it.
        role: What our certificate is to be good for.

    Raises:
        SettingsError: one of them is of no use; names it and what to do.
    """

    def __init__(self, tls: TlsSettings, table: str, role: Role) -> None:
        self.settings = tls
        self._table = table
        self._role = role
        # Stamped before it is read: what changes meanwhile is then seen as a change.
        self._files = Watched(tls.ca_file, tls.cert_file, tls.key_file)
        self.pems = read(tls, table, role)
        self._warn()

    def renewed(self) -> Pems | None:
        """The files anew if they changed and are of use, else ``None``."""
        if not self._files.changed():
            return None
        try:
            self.pems = read(self.settings, self._table, self._role)
        except SettingsError as error:
            _log.error("the old certificate stays in use: %s", error)
            return None
        _log.info("renewed", extra={"table": self._table, "certificate": repr(self.pems)})
        self._warn()
        return self.pems

    def expires_s(self) -> float:
        """When our certificate runs out, in seconds since 1970."""
        return self.pems.not_after.timestamp()

    def problem(self) -> str | None:
        """That our certificate is not good today, if so: whoever connects refuses it."""
        now = datetime.now(timezone.utc)
        if now > self.pems.not_after:
            return f"{self._table}.cert_file expired on {self.pems.not_after:%Y-%m-%d %H:%M}Z"
        if now < self.pems.not_before:
            return f"{self._table}.cert_file is not good before {self.pems.not_before:%Y-%m-%d}"
        return None

    def _warn(self) -> None:
        left = self.pems.not_after - datetime.now(timezone.utc)
        if left < WARN_WITHIN:
            until = f"{self.pems.not_after:%Y-%m-%d %H:%M}Z"
            _log.warning("%s.cert_file runs out on %s: renew it", self._table, until)


def read(tls: TlsSettings, table: str, role: Role) -> Pems:
    """Read the files of a table and judge them.

    Raises:
        SettingsError: one of them is of no use; names it and what to do.
    """
    authority = _content(tls.ca_file, f"{table}.ca_file")
    chain = _content(tls.cert_file, f"{table}.cert_file")
    _refuse_open_key(Path(tls.key_file), f"{table}.key_file")
    key = _content(tls.key_file, f"{table}.key_file")
    _certificate(authority, tls.ca_file, f"{table}.ca_file")
    ours = _certificate(chain, tls.cert_file, f"{table}.cert_file")
    if not _is_for(ours, role):
        raise SettingsError(
            f"{table}.cert_file: {tls.cert_file} is not for this: have it signed with the extended "
            f"key usage {role.value}"
        )
    _refuse_foreign_key(ours, key, tls, table)
    return Pems(authority, chain, key, ours.not_valid_before_utc, ours.not_valid_after_utc)


def _content(path: str, key: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(f"{key}: cannot read {path}: {error.strerror}") from error


def _certificate(pem: bytes, path: str, key: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise SettingsError(f"{key}: {path} has no certificate in PEM") from error


def _is_for(certificate: x509.Certificate, role: Role) -> bool:
    wanted = x509.oid.ExtendedKeyUsageOID
    purpose = wanted.SERVER_AUTH if role is Role.SERVER else wanted.CLIENT_AUTH
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return purpose in usage or wanted.ANY_EXTENDED_KEY_USAGE in usage


def _refuse_open_key(path: Path, key: str) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SettingsError(f"{key}: cannot read {path}: {error.strerror}") from error
    if mode & _OPEN_TO_OTHERS:
        raise SettingsError(
            f"{key}: {path} has mode {stat.S_IMODE(mode):04o} and is open to others: "
            f"chmod 600 {path}, and if they may have read it, replace it"
        )


def _refuse_foreign_key(ours: x509.Certificate, key: bytes, tls: TlsSettings, table: str) -> None:
    try:
        public = load_pem_private_key(key, None).public_key()
    except TypeError as error:
        raise SettingsError(
            f"{table}.key_file: {tls.key_file} is encrypted, and nobody is there to type its "
            "password; keep it without one"
        ) from error
    except ValueError as error:
        raise SettingsError(f"{table}.key_file: {tls.key_file} is no private key in PEM") from error
    if public != ours.public_key():
        raise SettingsError(f"{table}.key_file: {tls.key_file} does not belong to {tls.cert_file}")


def grpc_credentials(files: Renewable) -> grpc.ServerCredentials:
    """Mutual TLS for a gRPC server, which looks for renewed files at every connection.

    gRPC-core speaks TLS 1.2 and 1.3, and nothing older.
    """
    import grpc  # noqa: PLC0415 -- 30 MiB that MQTT alone does not need

    def configuration(pems: Pems) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration(
            [(pems.key, pems.chain)], root_certificates=pems.authority
        )

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        pems = files.renewed()
        return None if pems is None else configuration(pems)

    # Nothing renewed is None, which the types of gRPC do not know.
    return grpc.dynamic_ssl_server_credentials(
        configuration(files.pems),
        renewed,  # type: ignore[arg-type]
        require_client_authentication=True,
    )


def server_context(files: Renewable) -> ssl.SSLContext:
    """Mutual TLS for a server of ours; who shows no certificate is let through to be told.

    A certificate that is shown has to be a good one of the authority.
    """
    context = newest = _server_context(files.settings)

    def renew(line: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal newest
        if files.renewed() is not None:
            newest = _server_context(files.settings)
        line.context = newest

    # OpenSSL calls it at every handshake, whether or not a name was asked for.
    context.sni_callback = renew
    return context


def _server_context(tls: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL
    return _loaded(context, tls)


def _loaded(context: ssl.SSLContext, tls: TlsSettings) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.cert_file, tls.key_file)
    context.load_verify_locations(tls.ca_file)
    return context


class _Line(ssl.SSLSocket):
    """Closes itself when the handshake fails, which paho leaves to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:
        """As in the standard library."""
        try:
            super().do_handshake(block)
        except (OSError, ValueError):
            self.close()
            raise


class ClientContext(ssl.SSLContext):
    """Mutual TLS to a server of others; asks it for the certificate of ``server_name`` if set.

    paho keeps one context for its life, so that renewed files are loaded into this one.
    """

    files: Renewable
    sslsocket_class = _Line

    @classmethod
    def of(cls, files: Renewable) -> ClientContext:
        """A context with the files of a table."""
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.files = files
        _loaded(context, files.settings)
        return context

    def renew(self) -> None:
        """Load the files again if they changed."""
        if self.files.renewed() is not None:
            _loaded(self, self.files.settings)

    def wrap_socket(
        self,
        sock: socket.socket,
        server_side: bool = False,
        do_handshake_on_connect: bool = True,
        suppress_ragged_eofs: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLSocket:
        """As in the standard library."""
        return super().wrap_socket(
            sock,
            server_side,
            do_handshake_on_connect,
            suppress_ragged_eofs,
            self.files.settings.server_name or server_hostname,
            session,
        )
