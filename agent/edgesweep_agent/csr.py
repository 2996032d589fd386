"""A device's key, made on the device, and the request by which an authority certifies it.

The key never leaves its file. A key that is in use is not replaced before its certificate is
here: a new one waits beside it as ``KEY.next`` until :func:`install` puts both into their places.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from edgesweep_common.outfile import beside, place, replacing

from . import tls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .certificate import Certificate
    from .settings import TlsSettings

_PrivateKey = (
    ec.EllipticCurvePrivateKey
    | rsa.RSAPrivateKey
    | ed25519.Ed25519PrivateKey
    | ed448.Ed448PrivateKey
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request as PEM text, the file of its key, and whether that was made for it."""

    pem: bytes
    key_file: Path
    is_new_key: bool


def next_key(files: TlsSettings) -> Path:
    """Where a key waits for its certificate while another is in use.

    Beside the file itself where that is named by a link: it is to take its place by rename.
    """
    key_file = files.key_file.resolve()
    return key_file.with_name(key_file.name + ".next")


def request(files: TlsSettings, device_id: str, *, new_key: bool = False) -> Request:
    """A request for a certificate that names this device.

    Args:
        files: ``[uplink.tls]``; the key is made where they want it, unless there is one.
        device_id: The common name, and the one DNS name.
        new_key: Make another key beside the one in use. One that waits already is taken again.

    Raises:
        CertificateTrouble: a key cannot be written, or the one that is there is of no use.
    """
    path = next_key(files) if new_key and files.key_file.exists() else files.key_file
    is_new = not path.exists()
    if is_new:
        # Where a link leads that names no key yet.
        _make_key(path.resolve())
    key = _key(path)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, device_id)])
    # Most authorities set the name themselves, and copy or drop this one: it is what they expect.
    other_names = x509.SubjectAlternativeName([x509.DNSName(device_id)])
    edwards = isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    signed = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(name)
        .add_extension(other_names, critical=False)
        .sign(key, None if edwards else hashes.SHA256())
    )
    return Request(signed.public_bytes(serialization.Encoding.PEM), path, is_new)


def install(new: Path, files: TlsSettings, device_id: str) -> Certificate | None:
    """Put a certificate into its place, with the key that waited for it if it is that one's.

    Everything is judged before anything is replaced. A daemon takes it without a restart.

    Returns:
        What the certificate says; ``None`` if only TLS can tell.

    Raises:
        CertificateTrouble: it is of no use to this device; nothing was changed.
    """
    waiting = next_key(files)
    key_file = waiting if waiting.exists() and _belongs(new, waiting) else files.key_file
    judged = msgspec.structs.replace(files, cert_file=new, key_file=key_file)
    found = tls.check(judged, device_id)
    target = place("cert_file", files.cert_file)
    with _trouble_of(files.cert_file), replacing(target, 0o644) as file:
        file.write(new.read_bytes())
        if key_file == waiting:
            file.flush()
            os.fsync(file.fileno())
            waiting.replace(files.key_file.resolve())
    return found


@contextmanager
def _trouble_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise tls.CertificateTrouble(f"{error.filename or path}: {error.strerror}") from error


def _make_key(path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with _trouble_of(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with beside(path, 0o600) as (file, name):
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
            # A link and not a rename: it fails if there is a key by now.
            os.link(name, path)


def _key(path: Path) -> _PrivateKey:
    tls.refuse_open_key(path)
    with _trouble_of(path):
        pem = path.read_bytes()
    try:
        key = serialization.load_pem_private_key(pem, None)
    except TypeError as error:
        raise tls.CertificateTrouble(f"{path}: is encrypted; keep it without a password") from error
    except ValueError as error:
        raise tls.CertificateTrouble(
            f"{path}: is no private key in PEM; move it away, and one is made"
        ) from error
    if not isinstance(key, _PrivateKey):
        raise tls.CertificateTrouble(f"{path}: TLS has no use for this kind of key")
    return key


def _belongs(certificate: Path, key_file: Path) -> bool:
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    except (OSError, ValueError):
        return False
    return found == _key(key_file).public_key()
