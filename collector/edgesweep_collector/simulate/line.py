"""What a transport is to a simulated device: one connection that moves bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from edgesweep.delivery import Key, Parcel
    from edgesweep.envelope import Ack


class LineDown(Exception):  # noqa: N818 -- it is a state that passes, not an error to fix
    """The connection is not there, or is gone; the text says why."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What a broker did with an envelope: handed it on, or not. It is no receipt."""

    key: Key
    handed_on: bool


@dataclass(frozen=True, slots=True)
class Caller:
    """Who connects.

    Attributes:
        connection: Rises with each connection within the epoch.
        wake: Called on the event loop when something was heard, or the connection is gone.
    """

    device_id: str
    connection: int
    epoch: int
    boot_id: str
    agent_version: str
    wall_ns: int
    wake: Callable[[], None]


class Line(Protocol):
    """One live connection."""

    async def send(self, parcel: Parcel) -> None:
        """Hand one parcel to the transport.

        Raises:
            LineDown: the connection is gone.
        """

    def heard(self) -> list[Ack | Passed]:
        """What came back since it was last asked.

        Raises:
            LineDown: the connection is gone, and all that came before was told.
        """


class Dial(Protocol):
    """Makes connections."""

    def __call__(self, caller: Caller) -> AbstractAsyncContextManager[Line]:
        """Connect, and disconnect on leaving.

        Raises:
            LineDown: nobody answers, or we are not let in.
        """
