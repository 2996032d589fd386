"""One connection from its beginning to its end: what is sent on it, heard of it, and watched."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio

from edgesweep.envelope import Ack
from edgesweep.events import resend_unavailable
from edgesweep_agent.errors import SpoolError

from .base import Trouble, UplinkDown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from edgesweep.delivery import Delivery, Key, Parcel, Ranges, Settlement
    from edgesweep.records import Event

    from .base import Link, Uplink
    from .health import Health

_log = logging.getLogger(__name__)

SPOOL_PAUSE_S = 10.0
"""How long nothing is asked of a spool whose disk is full."""
LINGER_S = 1.0
"""How long an idle conversation sleeps when nobody wakes it."""
FINISH_S = 10.0
"""How long what is on its way is waited for when we end a connection."""


class Outbox(Protocol):
    """What is needed of the spool, each call off the event loop's thread."""

    async def head(self, limit: int, budget_bytes: int, skip: Collection[Key]) -> list[Parcel]:
        """The next parcels by priority and age, but for some."""

    async def settle(self, delivered: Sequence[Key], rejected: Sequence[Key], reason: str) -> None:
        """Let go of what is done, set aside what was refused."""

    async def resend(self, epoch: int, ranges: Ranges) -> Ranges:
        """Let delivered records wait again; the ranges of what is not here any more."""

    async def shrink(self, key: Key, limit_bytes: int) -> None:
        """Make several of a record that is larger than the transport takes, or set it aside."""


class Bell:
    """Wakes who waits for something to send."""

    def __init__(self) -> None:
        self._rung = anyio.Event()

    def ring(self) -> None:
        """There is something."""
        self._rung.set()

    async def wait(self, within_s: float) -> None:
        """Wait for it."""
        with anyio.move_on_after(within_s):
            await self._rung.wait()
        self._rung = anyio.Event()


@dataclass(frozen=True, slots=True)
class Parts:
    """What the conversations of a drain have in common.

    Attributes:
        clock: Monotonic seconds.
        tell: Takes an event for the collector; ``None`` if nobody does.
        look_s: How often the certificate on the disk is looked at.
        watch_s: How often the rest is.
    """

    outbox: Outbox
    uplink: Uplink
    delivery: Delivery
    health: Health
    bell: Bell
    clock: Callable[[], float]
    tell: Callable[[Event], Awaitable[None]] | None
    look_s: float
    watch_s: float


@dataclass(slots=True)
class Conversation:
    """Drives one link.

    Attributes:
        on_change: Called when something was learnt about the health of the way.
    """

    link: Link
    parts: Parts
    on_change: Callable[[], None]
    _ending: bool = False
    _busy: bool = False
    _unfit: set[Key] = field(default_factory=set)
    # What was read from the spool is offered before an ack may delete it, or it would be sent
    # once more.
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def run(self) -> None:
        """Deliver until we end the connection ourselves, to make another at once.

        Raises:
            UplinkDown: it ended otherwise.
        """
        down: UplinkDown | None = None
        async with anyio.create_task_group() as tasks:

            async def until_down(part: Callable[[], Awaitable[None]], *, last: bool) -> None:
                nonlocal down
                try:
                    await part()
                except UplinkDown as error:
                    down = down or error
                    tasks.cancel_scope.cancel()
                if last:
                    tasks.cancel_scope.cancel()

            # The parts of one connection: the first to find it gone ends all.
            tasks.start_soon(partial(until_down, self._send, last=False))
            tasks.start_soon(partial(until_down, self._listen, last=True))
            tasks.start_soon(partial(until_down, self._watch, last=False))
        if down is not None:
            raise down

    # -- out -----------------------------------------------------------------------------

    async def _send(self) -> None:
        parts = self.parts
        while not self._ending:
            await self._refill()
            await self._send_all(parts.delivery.due(parts.clock()))
            due_s = parts.delivery.next_due_s()
            left_s = LINGER_S if due_s is None else max(0.0, due_s - parts.clock())
            await parts.bell.wait(min(LINGER_S, left_s))

    async def _send_all(self, parcels: Sequence[Parcel]) -> None:
        delivery = self.parts.delivery
        for parcel in parcels:
            if self._ending:
                return
            if delivery.quiet and len(parcels) > 1:
                # There is nobody to hear the rest of them: that became known meanwhile.
                delivery.unheard(parcel.key, self.parts.clock())
            elif parcel.key in delivery.in_flight:
                # It is, unless an ack of its first copy has come meanwhile.
                await self._send_one(parcel)

    async def _refill(self) -> None:
        delivery = self.parts.delivery
        async with self._turn:
            count, left = delivery.room
            if count:
                skip = {*delivery.in_flight, *self._unfit}
                found = await self.parts.outbox.head(count, left, skip)
                delivery.offer(found, self.parts.clock())

    async def _send_one(self, parcel: Parcel) -> None:
        limit = self.link.limit_bytes(parcel)
        if limit is not None and len(parcel.data) > limit:
            await shrink(self.parts, parcel, limit, self._unfit)
            self.on_change()
            return
        delivery, clock = self.parts.delivery, self.parts.clock
        delivery.sent(parcel.key, clock())
        self._busy = True
        await self.link.send(parcel)
        self._busy = False
        delivery.sent(parcel.key, clock())

    # -- in ------------------------------------------------------------------------------

    async def _listen(self) -> None:
        async for word in self.link.words():
            if isinstance(word, Ack):
                await self._settle(word)
                self.parts.bell.ring()
            elif not word.handed_on:
                self.parts.delivery.unheard(word.key, self.parts.clock())
            elif self.parts.delivery.heard():
                self.parts.bell.ring()
            self.parts.health.link = self.link.trouble
            self.on_change()
        if not self._ending:
            raise UplinkDown("the other side ended the connection")

    async def _settle(self, ack: Ack) -> None:
        async with self._turn:
            settled = self.parts.delivery.acked(ack, self.parts.clock())
            self.parts.health.acked()
            if settled.delivered or settled.rejected:
                await self._delete(settled)
        if settled.rejected:
            _log.error(
                "the collector refused records",
                extra={"reason": settled.reason, "seqs": [key[1] for key in settled.rejected]},
            )
        if settled.again:
            await self._find_again(ack.epoch, settled.again)

    async def _delete(self, settled: Settlement) -> None:
        try:
            await self.parts.outbox.settle(settled.delivered, settled.rejected, settled.reason)
        except SpoolError as error:
            # They are archived, and will be found to be when they are sent again.
            _log.warning("delivered records cannot be deleted: %s", error)
            await anyio.sleep(SPOOL_PAUSE_S)

    async def _find_again(self, epoch: int, ranges: Ranges) -> None:
        try:
            missing = await self.parts.outbox.resend(epoch, ranges)
        except SpoolError as error:
            # Whoever asked will ask again.
            _log.warning("records that were asked for again cannot be had: %s", error)
            return
        if missing and self.parts.tell is not None:
            await self.parts.tell(resend_unavailable(epoch, missing))

    # -- beside --------------------------------------------------------------------------

    async def _watch(self) -> None:
        parts = self.parts
        began_s = looked_s = parts.clock()
        while True:
            await anyio.sleep(parts.watch_s)
            now_s = parts.clock()
            if parts.delivery.reconnect.is_stable(now_s):
                parts.health.stable()
            if parts.delivery.stalled(now_s):
                text = "connected, but nothing comes back: is the collector at work?"
                raise UplinkDown(text, Trouble.STALLED)
            if now_s - looked_s >= parts.look_s:
                looked_s = now_s
                self._ending = await parts.uplink.renewed()
                parts.health.uplink = parts.uplink.trouble
            if self.link.lasts_s is not None and now_s - began_s >= self.link.lasts_s:
                self._ending = True
            self.on_change()
            if self._ending:
                await self._end()
                return

    async def _end(self) -> None:
        """Send nothing more, wait for what is on its way, and let :meth:`_listen` end the rest."""
        self.parts.bell.ring()
        deadline_s = self.parts.clock() + FINISH_S
        while (self._busy or self.parts.delivery.awaited) and self.parts.clock() < deadline_s:
            await anyio.sleep(0.05)
        if self._busy:
            raise UplinkDown("the other side takes nothing more")
        await self.link.finish()
        await anyio.sleep(FINISH_S)
        raise UplinkDown("the other side does not end the connection")


async def shrink(parts: Parts, parcel: Parcel, limit_bytes: int, unfit: set[Key]) -> None:
    """Have a record split, or set aside, that is larger than the way to the collector takes.

    Args:
        parts: Of the drain.
        parcel: The record.
        limit_bytes: What an envelope like it may have.
        unfit: Gets it if the disk takes neither, so that it is not tried at once again.
    """
    parts.delivery.withdraw(parcel.key)
    text = (
        f"a {parcel.topic_kind} of {len(parcel.data)} bytes is more than the {limit_bytes} that "
        "can be sent; it was split, or set aside: edgesweep-agent spool show --refused"
    )
    parts.health.too_large(text, parts.clock())
    _log.warning(text, extra={"epoch": f"{parcel.key[0]:016x}", "seq": parcel.key[1]})
    try:
        await parts.outbox.shrink(parcel.key, limit_bytes)
    except SpoolError as error:
        _log.warning("it waits, since the disk takes neither: %s", error)
        unfit.add(parcel.key)
