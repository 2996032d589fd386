"""What every transport is to the composition root."""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """Moves bytes between devices and the acceptor; knows nothing of what they mean."""

    async def start(self) -> None:
        """Begin to take envelopes; returns once that is so, or is being attempted.

        Raises:
            ListenError: an address cannot be bound.
        """

    async def stop(self) -> None:
        """Take nothing more, give what was taken up to a second to be acked, and close."""

    def health(self) -> str | None:
        """What is wrong, in a few words; ``None`` if nothing is."""
