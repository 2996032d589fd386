"""Whether a device may deliver, by the certificate that its connection has."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from edgesweep.topics import is_device_id
from edgesweep_collector.peers import Denylist, Peer, peer_of_pem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


class Admission:
    """Judges peers when they come, and again while they are here.

    Args:
        denylist: Who is refused in any case.
        now: The wall clock.
    """

    def __init__(self, denylist: Denylist, now: Callable[[], datetime] = _utc_now) -> None:
        self._denylist = denylist
        self._now = now

    def objection(self, peer: Peer) -> str | None:
        """Why a peer may not deliver, or not any longer; ``None`` if it may."""
        if not is_device_id(peer.common_name):
            return f"the certificate of {peer} names no device: 1 to 63 of a-z, 0-9 and -"
        if self._denylist.denies(peer.common_name, peer.serial):
            return f"the certificate of {peer} is on the denylist"
        # TLS looks at this once; a stream may live for weeks, or resume what it once showed.
        if self._now() > peer.not_after:
            return f"the certificate of {peer} expired on {peer.not_after:%Y-%m-%d %H:%M}Z"
        return None


def peer_of_stream(auth_context: Mapping[str, Iterable[bytes]]) -> Peer | None:
    """Who is at the other end of a gRPC stream; ``None`` without TLS."""
    found = next(iter(auth_context.get("x509_pem_cert", ())), None)
    return None if found is None else peer_of_pem(found)
