"""Spool to uplink: keeps one connection and lets the delivery machine decide over it.

Rows are read from the spool, offered to the machine, sent when it says so, and deleted when
the collector's ack has settled them. Everything that may go wrong with a connection ends in
one place: :class:`UplinkDown`, a pause, and another try.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import anyio

from edgesweep_agent.errors import SpoolError

from .base import UplinkDown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgesweep.delivery import Delivery, Key, Parcel, Settlement

    from .base import Link, Uplink

_log = logging.getLogger(__name__)

SPOOL_PAUSE_S = 10.0
"""How long nothing is asked of a spool whose disk is full."""
LINGER_S = 1.0
"""How long an idle drain sleeps when nobody wakes it."""


class Outbox(Protocol):
    """What the drain needs of the spool, each call off the event loop's thread."""

    async def head(self, limit: int) -> list[Parcel]:
        """The next parcels by priority and age."""

    async def settle(self, delivered: Sequence[Key], rejected: Sequence[Key], reason: str) -> None:
        """Delete what is done, set aside what was refused."""


@dataclass(slots=True)
class Drain:
    """Drives one uplink for the life of the daemon.

    Attributes:
        clock: Monotonic seconds.
        state: ``connecting``, ``connected`` or ``down``, with ``detail`` for people.
    """

    outbox: Outbox
    uplink: Uplink
    delivery: Delivery
    clock: Callable[[], float]
    state: str = "connecting"
    detail: str = ""
    _wake: anyio.Event = field(default_factory=anyio.Event)
    # What was read from the spool is offered before an ack may delete it, or it would be sent
    # once more.
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    def wake(self) -> None:
        """There is something new in the spool."""
        self._wake.set()

    async def run(self) -> None:
        """Connect, deliver, and connect again, until cancelled."""
        while True:
            try:
                async with self.uplink.connect() as link:
                    self._now("connected", "")
                    await self._deliver(link)
            except UplinkDown as down:
                pause = self.delivery.disconnected()
                self._now("down", str(down))
                await anyio.sleep(pause)

    async def _deliver(self, link: Link) -> None:
        # The two ends of one connection: the first to find it gone ends both.
        problem: UplinkDown | None = None

        async def sending() -> None:
            nonlocal problem
            try:
                while True:
                    await self._send_due(link)
                    await self._linger()
                    self._now("connected", link.trouble)
            except UplinkDown as down:
                problem = down
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sending)
            try:
                await self._settle(link)
            except UplinkDown as down:
                problem = down
            tasks.cancel_scope.cancel()
        raise problem or UplinkDown("the connection was closed")

    async def _settle(self, link: Link) -> None:
        async for ack in link.acks():
            async with self._turn:
                settled = self.delivery.acked(ack, self.clock())
                if settled.delivered or settled.rejected:
                    await self._delete(settled)
            if settled.rejected:
                _log.error(
                    "the collector refused records",
                    extra={"reason": settled.reason, "seqs": [key[1] for key in settled.rejected]},
                )
            self.wake()

    async def _delete(self, settled: Settlement) -> None:
        try:
            await self.outbox.settle(settled.delivered, settled.rejected, settled.reason)
        except SpoolError as error:
            # They are archived, and will be found to be when they are sent again.
            _log.warning("delivered records cannot be deleted: %s", error)
            await anyio.sleep(SPOOL_PAUSE_S)

    async def _send_due(self, link: Link) -> None:
        async with self._turn:
            limit = self.delivery.policy.window_count + self.delivery.in_flight
            self.delivery.offer(await self.outbox.head(limit), self.clock())
        for parcel in self.delivery.due(self.clock()):
            await link.send(parcel)

    async def _linger(self) -> None:
        due = self.delivery.next_due_s()
        pause = LINGER_S if due is None else min(LINGER_S, max(0.0, due - self.clock()))
        with anyio.move_on_after(pause):
            await self._wake.wait()
        self._wake = anyio.Event()

    def _now(self, state: str, detail: str) -> None:
        if (state, detail) != (self.state, self.detail):
            level = logging.WARNING if detail else logging.INFO
            extra = {"uplink": self.uplink.name, "detail": detail}
            _log.log(level, "uplink %s", state, extra=extra)
        self.state, self.detail = state, detail
