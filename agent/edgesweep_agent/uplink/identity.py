"""The certificate that a connection is made with: a good one is kept when its files turn bad.

A renewed certificate is tried on a connection of its own before anybody swaps: a site that rolls
out bad ones would otherwise lose all its devices at once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

from edgesweep_agent import tls

from .base import Told, Trouble, UplinkDown

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path

    from edgesweep_agent.settings import TlsSettings

_T = TypeVar("_T")
_AGAIN_S = 3600.0
_Stamp = tuple[tuple[int, int, int] | None, ...]


class Identity(Generic[_T]):
    """What a transport connects with. Its methods block.

    Args:
        files: Where certificate, key and authorities are.
        device_id: Whom the certificate has to name.
        make: Makes of them what the transport takes, and raises ``CertificateTrouble``.
        reach: Shakes hands with the other side, with a context made of the files; raises as
            :func:`edgesweep_agent.tls.probe` does.
        clock: Monotonic seconds.

    Attributes:
        trouble: Why the files that are there now are of no use, while older ones are in use.
    """

    def __init__(
        self,
        files: TlsSettings,
        device_id: str,
        make: Callable[[TlsSettings, str], _T],
        reach: Callable[[ssl.SSLContext], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trouble: Told | None = None
        self._files = files
        self._device_id = device_id
        self._make = make
        self._reach = reach
        self._clock = clock
        self._made: _T | None = None
        self._stamp: _Stamp = ()
        self._refused: _Stamp = ()
        self._again_s = 0.0

    def load(self) -> _T:
        """What to connect with: of the files, or what was good the last time.

        Raises:
            UplinkDown: the files are of no use, and never were.
        """
        if self._made is None or self.renewed():
            stamp = self._now()
            try:
                self._made, self._stamp = self._make(self._files, self._device_id), stamp
            except tls.CertificateTrouble as error:
                if self._made is None:
                    raise UplinkDown(str(error), Trouble.CERTIFICATE) from error
                self._refuse(stamp, error)
        return self._made

    def renewed(self) -> bool:
        """Whether the files are others than those in use, and the other side takes them.

        Those that it does not take are tried again once they change, or after an hour: it may
        be the clock that is wrong.
        """
        stamp = self._now()
        if stamp == self._stamp:
            self.trouble = None
            return False
        if stamp == self._refused and self._clock() < self._again_s:
            return False
        try:
            self._reach(tls.ssl_context(self._files, self._device_id))
        except tls.CertificateTrouble as error:
            self._refuse(stamp, error)
            return False
        except OSError:
            return False
        self.trouble = None
        return True

    def why(self) -> UplinkDown | None:
        """Why the other side ended a handshake; ``None`` if that was not for a certificate."""
        try:
            self._reach(tls.ssl_context(self._files, self._device_id))
        except tls.CertificateTrouble as error:
            return UplinkDown(str(error), Trouble.CERTIFICATE)
        except OSError:
            pass
        return None

    def _refuse(self, stamp: _Stamp, error: tls.CertificateTrouble) -> None:
        self._refused, self._again_s = stamp, self._clock() + _AGAIN_S
        self.trouble = Told(Trouble.CERTIFICATE, f"the new certificate is not used: {error}")

    def _now(self) -> _Stamp:
        return tuple(
            _stamp(path)
            for path in (self._files.cert_file, self._files.key_file, self._files.ca_file)
        )


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
