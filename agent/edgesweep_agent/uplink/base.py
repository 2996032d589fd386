"""What every transport offers: it moves bytes, and decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from edgesweep.delivery import Key, Parcel
    from edgesweep.envelope import Ack


class Trouble(Enum):
    """What is wrong with the way to the collector, as a word that alarms can be made of."""

    AUTH_FAILED = "auth_failed"
    CERTIFICATE = "certificate"
    CLIENT_ID_CONFLICT = "client_id_conflict"
    NO_SUBSCRIBERS = "no_subscribers"
    REFUSED = "refused"
    STALLED = "stalled"
    TOO_LARGE = "too_large"
    UNREACHABLE = "unreachable"


class Told(NamedTuple):
    """A trouble, and a text about it for people."""

    trouble: Trouble
    text: str


@dataclass(frozen=True, slots=True)
class TooLarge:
    """What the other side said of an envelope that it does not take, as far as it said it.

    Attributes:
        size_bytes: How large the envelope is.
        limit_bytes: How large one may be.
    """

    size_bytes: int | None = None
    limit_bytes: int | None = None


class UplinkDown(Exception):  # noqa: N818 - it is a state that passes, not an error to fix
    """The connection is not there, or is gone; the text says why, for people.

    Attributes:
        wait_s: How long the other side asked to be left alone.
        too_large: Set where it ended the connection for the size of an envelope.
    """

    def __init__(
        self,
        text: str,
        trouble: Trouble = Trouble.UNREACHABLE,
        *,
        wait_s: float = 0.0,
        too_large: TooLarge | None = None,
    ) -> None:
        super().__init__(text)
        self.told = Told(trouble, text)
        self.wait_s = wait_s
        self.too_large = too_large


@dataclass(frozen=True, slots=True)
class Passed:
    """What a broker did with an envelope: handed it on, or not. It is no receipt."""

    key: Key
    handed_on: bool


class Link(Protocol):
    """One live connection."""

    @property
    def trouble(self) -> Told | None:
        """What keeps it from being of use although it is up."""

    @property
    def lasts_s(self) -> float | None:
        """After how long it is to be made anew; ``None`` if it may last for ever."""

    def limit_bytes(self, parcel: Parcel) -> int | None:
        """How large an envelope like this may be here; ``None`` if that is not known."""

    async def send(self, parcel: Parcel) -> None:
        """Hand one parcel to the transport; returning promises nothing about its arrival.

        Raises:
            UplinkDown: the connection is gone.
        """

    def words(self) -> AsyncIterator[Ack | Passed]:
        """What comes back; ends where the connection ends in good order.

        Raises:
            UplinkDown: the connection is gone.
        """

    async def finish(self) -> None:
        """Say that nothing more is sent: ``words`` ends once all is answered."""


class Uplink(Protocol):
    """A way to the collector.

    Attributes:
        name: Of the transport.
    """

    name: str

    @property
    def trouble(self) -> Told | None:
        """What is wrong although it connects: a new certificate that is of no use."""

    @property
    def conflict(self) -> Told | None:
        """What it means if connections keep ending early; ``None`` if nothing special."""

    def connect(self) -> AbstractAsyncContextManager[Link, bool | None]:
        """Connect, and disconnect on leaving.

        Raises:
            UplinkDown: nobody answers, or we are not let in.
        """

    async def renewed(self) -> bool:
        """Whether there is another certificate on the disk than the one in use, a good one.

        It is tried on a connection of its own. One that is of no use is told in ``trouble``.
        """
