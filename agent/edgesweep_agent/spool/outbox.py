"""The spool as the event loop sees it: one worker thread, and commits that are shared.

What nobody waits for is committed at most every two seconds or 64 records, since it is commits
that wear a flash out; a result at once, together with all that waits by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from edgesweep_agent.errors import SpoolError

from .store import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from edgesweep.delivery import Key, Parcel
    from edgesweep.events import Ranges
    from edgesweep.records import Event, Kind

    from .spool import Spool
    from .store import Seal

_T = TypeVar("_T")

GROUP_S = 2.0
GROUP_COUNT = 64
"""What nobody waits for is on the disk after so many seconds, or so many records."""
PATIENCE_S = 5.0
"""How long a record that must be on the disk waits for a disk that takes nothing."""
RETRY_S = 1.0


@dataclass(eq=False, slots=True)
class _Waiting:
    """An entry before its commit.

    Attributes:
        lasting: Whoever made it keeps it until it is on the disk.
    """

    kind: Kind
    seal: Seal
    lasting: bool
    outcome: Key | Exception | None = None


@dataclass(slots=True)
class Outbox:
    """What the daemon's tasks ask of the spool.

    Attributes:
        sleep: Waits for so many seconds.
    """

    spool: Spool
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    _waiting: list[_Waiting] = field(default_factory=list)
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _one: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))

    async def put(self, kind: Kind, seal: Seal) -> Key:
        """Store a record; it is on the disk when this returns.

        Args:
            kind: What it is.
            seal: Makes its envelope of the epoch and the number it gets.

        Raises:
            SpoolError: it is not, and why: keep it, and ask again.
        """
        entry = _Waiting(kind, seal, lasting=True)
        for _ in range(round(PATIENCE_S / RETRY_S)):
            entry.outcome = None
            self._waiting.append(entry)
            await self._commit(entry)
            if isinstance(entry.outcome, tuple):
                return entry.outcome
            if not isinstance(entry.outcome, _UnstoredError):
                break
            await self.sleep(RETRY_S)
        raise entry.outcome if isinstance(entry.outcome, Exception) else SpoolError("not stored")

    async def later(self, kind: Kind, seal: Seal) -> None:
        """Store a record with others, soon; what has no room then is dropped and counted."""
        self._waiting.append(_Waiting(kind, seal, lasting=False))
        if len(self._waiting) >= GROUP_COUNT:
            await self._commit()

    async def keep(self, sealed: Callable[[Event], Seal]) -> None:
        """Commit what waits and tend the spool, until cancelled.

        Args:
            sealed: Makes the seal of an event that tells what was dropped or damaged.
        """
        try:
            while True:
                await self._commit()
                if not await self.run(self.spool.tend):
                    await self.run(self.spool.tell, sealed)
                    await self.sleep(GROUP_S)
        finally:
            with anyio.CancelScope(shield=True):
                await self._commit()

    async def head(
        self, limit: int, budget_bytes: int = 2**40, skip: Collection[Key] = ()
    ) -> list[Parcel]:
        """The next parcels by priority and age; see :meth:`.Spool.head`."""
        return await self.run(self.spool.head, limit, budget_bytes, skip)

    async def settle(self, delivered: Sequence[Key], rejected: Sequence[Key], reason: str) -> None:
        """Let go of what is done, set aside what was refused."""
        await self.run(self.spool.settle, delivered, rejected, reason)

    async def resend(self, epoch: int, ranges: Ranges) -> Ranges:
        """Let delivered records wait again; the ranges of what is not here any more."""
        return await self.run(self.spool.resend, epoch, ranges)

    async def shrink(self, key: Key, limit_bytes: int) -> None:
        """Make several of a record that is larger than the transport takes, or set it aside."""
        await self.run(self.spool.shrink, key, limit_bytes)

    async def run(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Call something of the spool in its thread."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._one)

    async def _commit(self, entry: _Waiting | None = None) -> None:
        """Commit what waits, unless somebody else's commit has had ``entry`` meanwhile."""
        async with self._turn:
            if entry is not None and entry not in self._waiting:
                return
            group, self._waiting = self._waiting, []
            try:
                await self._store(group)
            finally:
                # A task that is cancelled leaves the others theirs.
                self._waiting[:0] = [one for one in group if one.outcome is None]

    async def _store(self, group: list[_Waiting]) -> None:
        if not group:
            return
        try:
            outcomes = await self.run(self.spool.append, [(one.kind, one.seal) for one in group])
        except SpoolError as error:
            await self._hold(group, error)
        except Exception as error:  # noqa: BLE001 - of whoever sealed it
            if len(group) == 1:
                group[0].outcome = error
                return
            for one in group:
                await self._store([one])
        else:
            await self._told(group, outcomes)

    async def _hold(self, group: list[_Waiting], error: SpoolError) -> None:
        passing = [one for one in group if not one.lasting]
        for one in group:
            if one.lasting:
                one.outcome = _UnstoredError(str(error))
        if passing:
            entries = [(one.kind, one.seal) for one in passing]
            await self._told(passing, await self.run(self.spool.hold, entries))

    async def _told(self, group: list[_Waiting], outcomes: Sequence[Key | Refused]) -> None:
        dropped: dict[str, int] = {}
        for one, outcome in zip(group, outcomes, strict=True):
            refused = isinstance(outcome, Refused)
            one.outcome = SpoolError(outcome.reason) if isinstance(outcome, Refused) else outcome
            if refused and not one.lasting:
                dropped[one.kind.value] = dropped.get(one.kind.value, 0) + 1
        if dropped:
            await self.run(self.spool.drop, dropped)


class _UnstoredError(SpoolError):
    """The disk did not take it, and may a little later."""
