"""What a certificate says of itself, read by a short process of its own.

``cryptography`` takes 9 MiB of memory and keeps them; the daemon needs it for milliseconds, when
a certificate is new. So it asks ``python -m edgesweep_agent.certificate FILE`` and goes on
without it. Nothing here decides whether a certificate is genuine: TLS does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cryptography import x509

_WITHIN_S = 30.0


class Certificate(msgspec.Struct, frozen=True, tag="certificate"):
    """The first certificate of a file.

    Attributes:
        common_name: Whom it names; empty if it names nobody.
        serial: Its number at the authority, in hex, as a denylist has it.
        not_before_s: Seconds since 1970 from which on it is good.
        not_after_s: And until when.
        for_clients: Whether it may be used to connect, rather than to be connected to.
    """

    common_name: str
    serial: str
    not_before_s: float
    not_after_s: float
    for_clients: bool


class Unreadable(msgspec.Struct, frozen=True, tag="unreadable"):
    """Why there is no certificate in a file."""

    reason: str


def facts(pem: bytes) -> Certificate | Unreadable:
    """What the first certificate in PEM text says."""
    from cryptography import x509  # noqa: PLC0415 -- 9 MiB; see above

    try:
        first = x509.load_pem_x509_certificate(pem)
        names = first.subject.get_attributes_for_oid(x509.oid.NameOID.COMMON_NAME)
        return Certificate(
            common_name=str(names[0].value) if names else "",
            serial=f"{first.serial_number:x}",
            not_before_s=first.not_valid_before_utc.timestamp(),
            not_after_s=first.not_valid_after_utc.timestamp(),
            for_clients=_for_clients(first),
        )
    except ValueError:
        return Unreadable("it has no certificate in PEM, the form that begins with -----BEGIN")


def _for_clients(certificate: x509.Certificate) -> bool:
    from cryptography import x509  # noqa: PLC0415

    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    wanted = x509.oid.ExtendedKeyUsageOID
    return wanted.CLIENT_AUTH in usage or wanted.ANY_EXTENDED_KEY_USAGE in usage


def read(path: Path) -> Certificate | Unreadable | None:
    """What a file's certificate says; ``None`` if the process that reads it could not run.

    Blocks for as long as a Python takes to start, if the file is not the one of last time.

    Raises:
        OSError: the file cannot be read.
    """
    stat = os.stat(path)  # noqa: PTH116 -- the fields by which a file is another one
    with path.open("rb"):
        pass
    try:
        return _asked(str(path), (stat.st_ino, stat.st_size, stat.st_mtime_ns))
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError):
        return None


@lru_cache(maxsize=4)
def _asked(path: str, _stamp: tuple[int, ...]) -> Certificate | Unreadable:
    command = [sys.executable, "-m", "edgesweep_agent.certificate", path]
    done = subprocess.run(command, capture_output=True, timeout=_WITHIN_S, check=True)
    return msgspec.json.decode(done.stdout, type=Certificate | Unreadable)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(facts(Path(sys.argv[1]).read_bytes())))
