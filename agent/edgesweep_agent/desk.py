"""What the daemon answers on its control socket: it takes records, and tells of the spool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from edgesweep import codec
from edgesweep.envelope import MAX_PAYLOAD_BYTES, WireError
from edgesweep.records import Kind

from . import control
from .core.room import Rank
from .errors import SpoolError
from .spool.listing import Cursor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from edgesweep.delivery import Key

    from .spool.outbox import Outbox


class Taker(Protocol):
    """Puts a payload into the spool under this device's name."""

    async def __call__(self, kind: Kind, payload: bytes) -> Key:
        """Store it; it is on the disk when this returns.

        Raises:
            SpoolError: it is not.
        """


class Desk:
    """Answers requests.

    Args:
        outbox: The spool.
        take: Puts a record into it.
        report: Tells how the daemon is.
    """

    def __init__(
        self, outbox: Outbox, take: Taker, report: Callable[[], Awaitable[control.Report]]
    ) -> None:
        self._outbox = outbox
        self._take = take
        self._report = report

    async def answer(self, request: control.Request) -> control.Answer:
        """Do what a caller on the control socket asks."""
        try:
            return await self._answer(request)
        except SpoolError as error:
            return control.Refused(str(error))

    async def _answer(self, request: control.Request) -> control.Answer:
        if isinstance(request, control.Put):
            return await self._put(request)
        if isinstance(request, control.Show):
            return await self._rows(request)
        if isinstance(request, control.Requeue):
            return await self._requeue(request)
        if isinstance(request, control.Portion):
            return await self._portion(request)
        return await self._report()

    async def _put(self, put: control.Put) -> control.Answer:
        try:
            kind = Kind(put.kind)
            codec.decode(kind, put.payload)
        except (ValueError, WireError) as error:
            return control.Refused(str(error))
        if len(put.payload) > MAX_PAYLOAD_BYTES:
            return control.Refused(f"{len(put.payload)} bytes: over {MAX_PAYLOAD_BYTES}")
        epoch, seq = await self._take(kind, put.payload)
        return control.Stored(f"{epoch:016x}", seq)

    async def _rows(self, request: control.Show) -> control.Rows:
        spool = self._outbox.spool
        listed = spool.rejected if request.refused else spool.rows
        return control.Rows(
            [control.Row.of(one) for one in await self._outbox.run(listed, request.limit)]
        )

    async def _requeue(self, request: control.Requeue) -> control.Answer:
        keys = None
        if request.keys is not None:
            try:
                keys = [(int(epoch, 16), seq) for epoch, seq in request.keys]
            except ValueError as error:
                return control.Refused(f"no epoch: {error}")
        return control.Requeued(await self._outbox.run(self._outbox.spool.requeue, keys))

    async def _portion(self, request: control.Portion) -> control.Answer:
        try:
            cursor = Cursor(Rank(request.rank), request.row)
        except ValueError as error:
            return control.Refused(str(error))
        envelopes, then = await self._outbox.run(self._outbox.spool.portion, cursor)
        return control.Envelopes(envelopes, None if then is None else (int(then.rank), then.row))
