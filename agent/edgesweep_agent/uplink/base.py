"""What every transport offers: it moves bytes, and decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from edgesweep.delivery import Parcel
    from edgesweep.envelope import Ack


class UplinkDown(Exception):  # noqa: N818 - it is a state that passes, not an error to fix
    """The connection is not there, or is gone; the text says why, for people."""


class Link(Protocol):
    """One live connection.

    Attributes:
        trouble: What keeps it from being of use although it is up, for people; or "".
    """

    trouble: str

    async def send(self, parcel: Parcel) -> None:
        """Hand one parcel to the transport; returning promises nothing about its arrival.

        Raises:
            UplinkDown: the connection is gone.
        """

    def acks(self) -> AsyncIterator[Ack]:
        """The collector's acks as they come.

        Raises:
            UplinkDown: the connection is gone.
        """


class Uplink(Protocol):
    """A way to the collector."""

    name: str

    def connect(self) -> AbstractAsyncContextManager[Link]:
        """Connect, and disconnect on leaving.

        Raises:
            UplinkDown: nobody answers, or we are not let in.
        """
