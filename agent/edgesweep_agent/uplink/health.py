"""What is wrong with the way to the collector now, out of all that was heard about it. Pure.

What ends with the connection is forgotten when there is another. Two kinds of trouble are not:
two devices with one name connect well each time, and so does a connection on which nothing moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .base import Told, Trouble

if TYPE_CHECKING:
    from .base import UplinkDown

EARLY = 3
"""So many connections in a row that ended early are no accident."""
SIZE_S = 600.0
"""How long it is told that a record was too large."""


@dataclass(slots=True)
class Health:
    """What keeps records from being delivered, the gravest first.

    Attributes:
        uplink: Of the uplink itself: a new certificate that is of no use.
        link: Of the connection that is up: nobody subscribes, or records are refused.
    """

    uplink: Told | None = None
    link: Told | None = None
    _down: Told | None = None
    _size: tuple[str, float] | None = None

    def now(self, now_s: float) -> Told | None:
        """The trouble there is; ``None`` while all is well."""
        size = None
        if self._size is not None and now_s < self._size[1]:
            size = Told(Trouble.TOO_LARGE, self._size[0])
        return self._down or self.uplink or self.link or size

    def lost(self, down: UplinkDown, early: int, conflict: Told | None) -> None:
        """A connection ended, or could not be made.

        Args:
            down: How.
            early: Connections in a row that ended early, with this one.
            conflict: What that means on this transport.
        """
        ended = down.told.trouble is Trouble.UNREACHABLE
        self._down = conflict if conflict and ended and early >= EARLY else down.told
        self.link = None

    def connected(self) -> None:
        """There is a connection."""
        if self._down and self._down.trouble not in {Trouble.CLIENT_ID_CONFLICT, Trouble.STALLED}:
            self._down = None

    def acked(self) -> None:
        """The collector acknowledged something."""
        if self._down and self._down.trouble is Trouble.STALLED:
            self._down = None

    def stable(self) -> None:
        """The connection has lasted."""
        if self._down and self._down.trouble is Trouble.CLIENT_ID_CONFLICT:
            self._down = None

    def too_large(self, text: str, now_s: float) -> None:
        """A record was larger than the way to the collector takes."""
        self._size = text, now_s + SIZE_S
