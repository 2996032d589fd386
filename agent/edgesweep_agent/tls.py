"""Mutual TLS: our certificate and key judged by name, before a transport says "socket closed".

Whoever refuses a certificate mostly just closes: gRPC then says "Socket closed", paho "Unspecified
error", and under TLS 1.3 the refusal only comes after a handshake that went well. So the files are
looked at first, and :func:`probe` finds out what the other side thinks of them.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import stat
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from edgesweep.topics import is_device_id

from . import certificate
from .certificate import Certificate, Unreadable
from .core.alerts import refusal, unsatisfied
from .errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import grpc

    from .settings import TlsSettings

_log = logging.getLogger(__name__)

WARN_DAYS = 14
"""A certificate that runs out within this is warned about."""

_DAY_S = 86_400
_OPEN_TO_OTHERS = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
# An alert is on its way for one round trip after the handshake, which itself took at least one.
_LEAST_WAIT_S = 0.3
_RENEW = "get a new one: edgesweep-agent csr"


class CertificateTrouble(ProgramError):  # noqa: N818 -- a state of files, and mended there
    """A certificate, key or authority is of no use as it is; names the file and what to do."""


class _Line(ssl.SSLSocket):
    """Closes itself when the handshake fails, which paho leaves to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:
        """As in the standard library."""
        try:
            super().do_handshake(block)
        except (OSError, ValueError):
            self.close()
            raise


class _Context(ssl.SSLContext):
    """Asks the other side for the certificate of ``name``, whatever host was dialled."""

    name: str | None = None
    sslsocket_class = _Line

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
            self.name or server_hostname,
            session,
        )


def check(
    files: TlsSettings, device_id: str, now_s: Callable[[], float] = time.time
) -> Certificate | None:
    """Judge the files of ``[uplink.tls]``; blocks, as :func:`.certificate.read` does.

    Args:
        files: Where they are.
        device_id: Whom the certificate has to name.
        now_s: Wall time in seconds since 1970.

    Returns:
        What our certificate says; ``None`` if only TLS itself can tell.

    Raises:
        CertificateTrouble: one of them is of no use.
    """
    refuse_open_key(files.key_file)
    found = read(files.cert_file)
    if found is not None:
        _judge(found, files.cert_file, device_id, now_s())
    _context(files)
    return found


def ssl_context(
    files: TlsSettings, device_id: str, now_s: Callable[[], float] = time.time
) -> ssl.SSLContext:
    """A client's context for TLS 1.2 or newer, its files judged as by :func:`check`.

    It checks the other side's certificate against the host, or against ``server_name`` if that
    is set.

    Raises:
        CertificateTrouble: as :func:`check` says.
    """
    _warn(check(files, device_id, now_s), files.cert_file, now_s)
    return _context(files)


def grpc_credentials(
    files: TlsSettings, device_id: str, now_s: Callable[[], float] = time.time
) -> grpc.ChannelCredentials:
    """Credentials for a channel, the files judged as by :func:`check`.

    gRPC takes ``server_name`` as the channel's option ``grpc.ssl_target_name_override``.

    Raises:
        CertificateTrouble: as :func:`check` says.
    """
    import grpc  # noqa: PLC0415 -- 10 MiB that a site on MQTT need not spend

    _warn(check(files, device_id, now_s), files.cert_file, now_s)
    authority, key, chain = (
        _bytes(path) for path in (files.ca_file, files.key_file, files.cert_file)
    )
    return grpc.ssl_channel_credentials(authority, key, chain)


def warning(
    found: Certificate | None, path: Path, now_s: Callable[[], float] = time.time
) -> str | None:
    """That a certificate runs out soon, in a sentence; ``None`` while that is far away."""
    if found is None:
        return None
    left = (found.not_after_s - now_s()) / _DAY_S
    if left >= WARN_DAYS:
        return None
    return f"{path}: runs out in {max(left, 0):.1f} days, on {_date(found.not_after_s)}; {_RENEW}"


def _warn(found: Certificate | None, path: Path, now_s: Callable[[], float]) -> None:
    soon = warning(found, path, now_s)
    if soon is not None:
        _log.warning("%s", soon)


def probe(
    host: str,
    port: int,
    context: ssl.SSLContext,
    server_name: str | None = None,
    timeout_s: float = 10.0,
    *,
    protocols: Sequence[str] = (),
) -> None:
    """Shake hands with a server, and wait briefly for its word on our certificate.

    Args:
        host: Where it is.
        port: Its port.
        context: As :func:`ssl_context` makes it.
        server_name: The name in its certificate, if that is not ``host``.
        timeout_s: How long connecting and the handshake may take, each.
        protocols: What is offered by ALPN; gRPC refuses whoever does not offer ``h2``.

    Raises:
        CertificateTrouble: one side refuses the other; says which, and why if that was told.
        OSError: nobody answers.
    """
    where = f"{host}:{port}"
    if protocols:
        context.set_alpn_protocols(list(protocols))
    with socket.create_connection((host, port), timeout_s) as plain:
        began = time.monotonic()
        try:
            with context.wrap_socket(plain, server_hostname=server_name or host) as line:
                _listen_for_refusal(line, max(_LEAST_WAIT_S, 2 * (time.monotonic() - began)))
        except ssl.SSLCertVerificationError as error:
            raise CertificateTrouble(f"{where}: {unsatisfied(error.verify_message)}") from error
        except (ssl.SSLError, ConnectionError) as error:
            raise CertificateTrouble(f"{where}: {refusal(str(error))}") from error


def _listen_for_refusal(line: ssl.SSLSocket, within_s: float) -> None:
    line.settimeout(within_s)
    # A server that waits for our first word has let us in.
    with contextlib.suppress(TimeoutError):
        if not line.recv(1):
            raise ConnectionAbortedError


def read(path: Path) -> Certificate | None:
    """What the certificate of a file says.

    Raises:
        CertificateTrouble: there is none in it, or it cannot be read.
    """
    try:
        found = certificate.read(path)
    except OSError as error:
        raise CertificateTrouble(f"{path}: {error.strerror}") from error
    if isinstance(found, Unreadable):
        raise CertificateTrouble(f"{path}: {found.reason}")
    return found


def refuse_open_key(path: Path) -> None:
    """Refuse a private key that others may read, or that is not there.

    Its group may read it, as services do that are handed their keys by the service manager.

    Raises:
        CertificateTrouble: saying what to do.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise CertificateTrouble(f"{path}: {error.strerror}") from error
    if mode & _OPEN_TO_OTHERS:
        raise CertificateTrouble(
            f"{path}: a private key with mode {stat.S_IMODE(mode):04o} is open to others; "
            f"chmod 600 {path}, and if they may have read it, make another: edgesweep-agent csr"
        )


def _judge(found: Certificate, path: Path, device_id: str, now_s: float) -> None:
    if found.common_name != device_id:
        name = found.common_name
        who = name if is_device_id(name) else repr(name) if name else "nobody"
        raise CertificateTrouble(
            f"{path}: names {who}, but this device is {device_id} (device.id); "
            "each device has a certificate of its own"
        )
    if now_s > found.not_after_s:
        raise CertificateTrouble(f"{path}: expired on {_date(found.not_after_s)}; {_RENEW}")
    if now_s < found.not_before_s:
        raise CertificateTrouble(
            f"{path}: is not good before {_date(found.not_before_s)}, and this device's clock says "
            f"{_date(now_s)}: is it set?"
        )
    if not found.for_clients:
        raise CertificateTrouble(
            f"{path}: is not for clients: have it signed with the extended key usage clientAuth"
        )


def _context(files: TlsSettings) -> _Context:
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.name = files.server_name
    try:
        context.load_cert_chain(files.cert_file, files.key_file, password=_no_password(files))
    except ssl.SSLError as error:
        raise CertificateTrouble(_why_no_pair(files, error)) from error
    except OSError as error:
        raise CertificateTrouble(f"{files.key_file}: {error.strerror}") from error
    _trust(context, files.ca_file)
    return context


def _no_password(files: TlsSettings) -> Callable[[], str]:
    def asked() -> str:
        raise CertificateTrouble(
            f"{files.key_file}: is encrypted, and nobody is there to type its password when the "
            "agent starts; keep it without one, readable by the agent alone"
        )

    return asked


def _why_no_pair(files: TlsSettings, error: ssl.SSLError) -> str:
    if "MISMATCH" in str(error.reason):
        return (
            f"{files.key_file}: does not belong to {files.cert_file}; the certificate was made "
            "from the request of another key"
        )
    return f"{files.key_file}: is no private key in PEM"


def _trust(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise CertificateTrouble(
            f"{path}: no certificate of an authority in it (PEM is wanted)"
        ) from error
    except OSError as error:
        raise CertificateTrouble(f"{path}: {error.strerror}") from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateTrouble(f"{path}: {error.strerror}") from error


def _date(at_s: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at_s, timezone.utc):%Y-%m-%d %H:%M}Z"
    except (OverflowError, ValueError):
        return "a day beyond any calendar"
