"""What an archive needs now and then: clocks settled, old readings removed, gaps asked for.

Of several collectors on one archive one settles clocks and prunes, by a lease; each asks the
devices that it reaches itself.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

from edgesweep.envelope import Ack, AckStatus

from .errors import ArchiveUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from .archive.rows import Ask

_log = logging.getLogger(__name__)

CLOCKS_S = 5.0
PRUNE_S = 3600.0
ASK_S = 30.0
_TERM_NS = 60 * 10**9


@dataclass(frozen=True, slots=True)
class Keep:
    """How long what stays, and how long what waits, in ns."""

    telemetry_ns: int
    heartbeats_ns: int
    wait_for_clock_ns: int


class Store(Protocol):
    """What is needed of the archive; every call blocks."""

    def lease(self, name: str, holder: str, now_ns: int, ttl_ns: int) -> bool:
        """Give ``holder`` a lease; ``False`` while another one holds it."""

    def settle_clocks(self, now_ns: int, wait_ns: int) -> int:
        """Fix the times of records that waited for their device's clock; how many."""

    def prune(self, now_ns: int, keep_telemetry_ns: int, keep_heartbeats_ns: int) -> dict[str, int]:
        """Delete what is older; how many of each kind."""

    def gaps_to_ask(self, device_ids: Collection[str], now_ns: int) -> list[Ask]:
        """What these devices are to be asked for again."""


class Devices(Protocol):
    """Who can be reached, and how."""

    def heard(self) -> Collection[str]:
        """Those that lately sent something."""

    def tell(self, ack: Ack) -> None:
        """Send one an ack."""


class Upkeep:
    """Does all that until cancelled; an archive that is down only puts it off.

    Args:
        store: The archive.
        devices: Who can be asked.
        holder: Ours, unlike that of any other collector.
        keep: How long what stays.
        clock: Nanoseconds since 1970.
        sleep: Waits for so many seconds.
    """

    def __init__(
        self,
        store: Store,
        devices: Devices,
        holder: str,
        keep: Keep,
        *,
        clock: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._store = store
        self._devices = devices
        self._holder = holder
        self._keep = keep
        self._clock = clock
        self._sleep = sleep

    async def run(self) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._every, CLOCKS_S, self.settle_clocks)
            tasks.start_soon(self._every, PRUNE_S, self.prune)
            tasks.start_soon(self._every, ASK_S, self.ask)

    async def settle_clocks(self) -> None:
        """Give records of devices whose clock was set later their times."""
        await anyio.to_thread.run_sync(self._settle_clocks)

    async def prune(self) -> None:
        """Delete readings and heartbeats that are past their time."""
        removed = await anyio.to_thread.run_sync(self._prune)
        if any(removed.values()):
            _log.info("removed what was past its time", extra={"removed": removed})

    async def ask(self) -> None:
        """Ask devices for what never came."""
        devices = self._devices.heard()
        if not devices:
            return
        asks = await anyio.to_thread.run_sync(self._store.gaps_to_ask, devices, self._clock())
        for one in asks:
            self._devices.tell(Ack(one.device_id, one.epoch, one.ranges, AckStatus.RESEND))
            facts = {"device": one.device_id, "ranges": one.ranges}
            _log.warning("records are missing, and asked for again", extra=facts)

    async def _every(self, pause_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except ArchiveUnavailable as error:
                # Ingest has said so already, and says when it is over.
                _log.debug("put off: %s", error)
            await self._sleep(pause_s)

    def _settle_clocks(self) -> None:
        if self._is_ours("clocks"):
            self._store.settle_clocks(self._clock(), self._keep.wait_for_clock_ns)

    def _prune(self) -> dict[str, int]:
        if not self._is_ours("prune"):
            return {}
        keep = self._keep
        return self._store.prune(self._clock(), keep.telemetry_ns, keep.heartbeats_ns)

    def _is_ours(self, name: str) -> bool:
        return self._store.lease(name, self._holder, self._clock(), _TERM_NS)
