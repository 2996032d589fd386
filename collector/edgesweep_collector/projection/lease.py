"""Which of several collectors on one archive writes a projection: the one that holds its lease."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

TTL_S = 30.0
"""How long the others wait for a collector that was killed."""
_RENEW_SHARE = 1 / 3


class Grantor(Protocol):
    """What is needed of the archive; the call blocks."""

    def lease(self, name: str, holder: str, now_ns: int, ttl_ns: int) -> bool:
        """Give ``holder`` the lease, or prolong it; ``False`` while another one holds it."""


class Lease:
    """Asks whether a projection may be written by us, and keeps it so.

    The archive is asked once in a third of the term, not for every request. A process that was
    stopped for longer than the term may still end the request it was in: that is harmless, since
    lines have the same bytes whoever writes them, and the cursor moves from where it was expected
    to be or not at all.

    Args:
        grantor: The archive.
        name: The projection's.
        holder: Ours, unlike that of any other collector.
        ttl_s: The term.
        clock: Nanoseconds since 1970, the same for all collectors to within a share of the term.
        monotonic: Seconds that no step of the clock changes.
    """

    def __init__(
        self,
        grantor: Grantor,
        name: str,
        holder: str,
        *,
        ttl_s: float = TTL_S,
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grantor = grantor
        self._name = name
        self._holder = holder
        self._ttl_s = ttl_s
        self._clock = clock
        self._monotonic = monotonic
        self._renew_at_s = float("-inf")

    def __call__(self) -> bool:
        """Whether we hold it now; blocks.

        Raises:
            ArchiveUnavailable: it was to be asked for, and the archive does not answer.
        """
        asked_s = self._monotonic()
        if asked_s < self._renew_at_s:
            return True
        held = self._asked(self._ttl_s)
        self._renew_at_s = asked_s + self._ttl_s * _RENEW_SHARE if held else float("-inf")
        return held

    def release(self) -> None:
        """Let another collector have it at once, where we hold it; blocks.

        Raises:
            ArchiveUnavailable: the others have to wait until it runs out.
        """
        if self._renew_at_s > float("-inf"):
            self._renew_at_s = float("-inf")
            self._asked(0.0)

    def _asked(self, ttl_s: float) -> bool:
        ttl_ns = round(ttl_s * 1e9)
        return self._grantor.lease(self._name, self._holder, self._clock(), ttl_ns)
