"""Authorities and certificates for tests: good ones, and each kind of bad one."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)
SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)
LOOPBACK = ("localhost", "127.0.0.1")
_PEM = serialization.Encoding.PEM


def key_pem(key, password: bytes | None = None) -> bytes:
    how = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, how)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key as files."""

    cert: Path
    key: Path

    @cached_property
    def x509(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.cert.read_bytes())

    @property
    def serial(self) -> str:
        return f"{self.x509.serial_number:X}"


class Authority:
    """A CA in a folder; ``file`` is what the others trust."""

    def __init__(self, folder: Path, name: str = "Plant device CA") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, folder / "ca.crt"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(timezone.utc)
        self._certificate = (
            x509.CertificateBuilder(self._name, self._name, self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=3650))
            .not_valid_after(now + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_signs_only(), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        self.file.write_bytes(self._certificate.public_bytes(_PEM))

    def client(self, name: str, **how) -> Pair:
        """What a device, a collector at a broker, or a reader has."""
        return self.issue(name, CLIENT, **how)

    def server(self, name: str = "localhost", names=LOOPBACK, **how) -> Pair:
        return self.issue(name, SERVER, names=names, **how)

    def issue(self, name, usage, *, file=None, key=None, **how) -> Pair:
        """A certificate and a new key as files; ``how`` is that of :meth:`signed`."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        stem = file or name
        pair = Pair(self.folder / f"{stem}.crt", self.folder / f"{stem}.key")
        pair.cert.write_bytes(self.signed(key.public_key(), name, usage, **how))
        pair.key.touch(0o600)
        pair.key.write_bytes(key_pem(key))
        return pair

    def signed(
        self, public_key, name, usage=CLIENT, *, names=(), days=(-1, 30), subject=None
    ) -> bytes:
        """A certificate as PEM, good from and until so many days from now."""
        now = datetime.now(timezone.utc)
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
        subject = subject or x509.Name(attributes)
        made = (
            x509.CertificateBuilder(self._name, subject, public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=days[0]))
            .not_valid_after(now + timedelta(days=days[1]))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if usage:
            made = made.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        if names:
            made = made.add_extension(
                x509.SubjectAlternativeName([_other_name(one) for one in names]), critical=False
            )
        return made.sign(self._key, hashes.SHA256()).public_bytes(_PEM)

    def signed_request(self, pem: bytes, name: str) -> bytes:
        """What an authority makes of a request: its key, and the name that the authority knows."""
        return self.signed(x509.load_pem_x509_csr(pem).public_key(), name)


def _other_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _signs_only() -> x509.KeyUsage:
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment")
    names += ("key_agreement", "encipher_only", "decipher_only")
    return x509.KeyUsage(key_cert_sign=True, crl_sign=True, **dict.fromkeys(names, False))
