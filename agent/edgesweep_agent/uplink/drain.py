"""Spool to uplink: keeps one connection and lets the delivery machine decide over it.

Rows are read from the spool, offered to the machine, sent when it says so, and deleted when
the collector's ack has settled them. Everything that may go wrong with a connection ends in
one place: :class:`UplinkDown`, a pause, and another try, for ever.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from .base import Trouble, UplinkDown
from .conversation import Bell, Conversation, Outbox, Parts, shrink
from .health import Health

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from edgesweep.delivery import Delivery
    from edgesweep.records import Event

    from .base import Uplink

_log = logging.getLogger(__name__)

_USELESS = frozenset({Trouble.STALLED, Trouble.TOO_LARGE})


@dataclass(slots=True)
class Drain:
    """Drives one uplink for the life of the daemon.

    Attributes:
        clock: Monotonic seconds.
        tell: Takes an event for the collector.
        sleep: Waits for so many seconds between two tries.
        look_s: How often the certificate on the disk is looked at.
        watch_s: How often the rest is.
        state: ``connecting``, ``connected`` or ``down``.
        trouble: A word for alarms, see :class:`.base.Trouble`; "" while all is well.
        detail: The same for people.
    """

    outbox: Outbox
    uplink: Uplink
    delivery: Delivery
    clock: Callable[[], float]
    tell: Callable[[Event], Awaitable[None]] | None = None
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    look_s: float = 30.0
    watch_s: float = 1.0
    state: str = "connecting"
    trouble: str = ""
    detail: str = ""
    _logged: str = ""
    _bell: Bell = field(default_factory=Bell)
    _health: Health = field(default_factory=Health)

    @property
    def told(self) -> str:
        """The trouble and what it is; "" while all is well."""
        return f"{self.trouble}: {self.detail}" if self.trouble else ""

    def wake(self) -> None:
        """There is something new in the spool."""
        self._bell.ring()

    async def run(self) -> None:
        """Connect, deliver, and connect again, until cancelled."""
        parts = Parts(
            outbox=self.outbox,
            uplink=self.uplink,
            delivery=self.delivery,
            health=self._health,
            bell=self._bell,
            clock=self.clock,
            tell=self.tell,
            look_s=self.look_s,
            watch_s=self.watch_s,
        )
        while True:
            pause_s = await self._once(parts)
            await self.sleep(pause_s)

    async def _once(self, parts: Parts) -> float:
        """One connection; how long to wait before the next."""
        was_up = False
        try:
            async with self.uplink.connect() as link:
                was_up = True
                self.delivery.connected(self.clock())
                self._health.connected()
                self._health.uplink = self.uplink.trouble
                self._now("connected")
                await Conversation(link, parts, lambda: self._now("connected")).run()
        except UplinkDown as down:
            return await self._lost(down, parts, was_up=was_up)
        except Exception as error:  # noqa: BLE001 - the spool and its socket go on whatever it is
            _log.exception("the uplink failed")
            fault = UplinkDown(f"{type(error).__name__}: {error}")
            return await self._lost(fault, parts, was_up=was_up)
        self.delivery.left()
        return 0.0

    async def _lost(self, down: UplinkDown, parts: Parts, *, was_up: bool) -> float:
        offender = None
        if down.too_large is not None:
            offender = self.delivery.largest(down.too_large.size_bytes)
        pause_s = self.delivery.disconnected(
            self.clock(), at_least_s=down.wait_s, useless=down.told.trouble in _USELESS
        )
        if down.too_large is not None and offender is not None:
            size = len(offender.data)
            limit = min(down.too_large.limit_bytes or size // 2, size - 1)
            await shrink(parts, offender, limit, set())
        early = self.delivery.reconnect.early if was_up else 0
        self._health.lost(down, early, self.uplink.conflict)
        self._now("down")
        return pause_s

    def _now(self, state: str) -> None:
        told = self._health.now(self.clock())
        self.state = state
        self.trouble, self.detail = (told.trouble.value, told.text) if told else ("", "")
        # Once for each change, not for each try.
        word = self.trouble or state
        if word != self._logged:
            self._logged = word
            extra = {"uplink": self.uplink.name, "detail": self.detail}
            _log.log(
                logging.WARNING if self.trouble else logging.INFO, "uplink %s", word, extra=extra
            )
