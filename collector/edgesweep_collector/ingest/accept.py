"""The one place that accepts: check, archive in groups, and only then acknowledge."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

from edgesweep.envelope import Ack, AckStatus, to_ranges
from edgesweep.topics import is_device_id
from edgesweep_collector.archive.rows import Kept
from edgesweep_collector.core.refusals import Refusals
from edgesweep_collector.core.turns import Turns
from edgesweep_collector.errors import ArchiveUnavailable

from .check import Refusal, check

if TYPE_CHECKING:
    from edgesweep_collector.archive.rows import Received
    from edgesweep_collector.counters import Counters

_log = logging.getLogger(__name__)

# What one commit takes, of all senders and of one, and what may wait, of one and of all. While a
# commit runs the queue fills again, so that groups form without any delay. A commit of 16 takes
# little longer than one of a single envelope, which is mostly the disk: a flood of one device costs
# the others no more than that. An agent has a hundred on their way at most.
_GROUP = 64
_SHARE = 16
_LINE = 256
_QUEUE_BYTES = 64 * 1024 * 1024
# For so long a group is tried again here when the archive refuses it: a database that is restarted
# is a slow commit then, and nothing is sent again. An agent waits as long for an ack.
_HOLD_S, _AGAIN_S = 10.0, 0.25
# Patience that is asked for after that.
_MIN_RETRY_AFTER_S, _MAX_RETRY_AFTER_S = 2.0, 60.0
_TELL_EVERY_S = 60.0
# A sender of nothing but garbage waits after each: ten a second cost nobody anything.
_PATIENCE = 20
_SLOWED_S = 0.1
_MOST_DEVICES = 10_000

_STATUS = {
    Kept.STORED: AckStatus.STORED,
    Kept.DUPLICATE: AckStatus.DUPLICATE,
    Kept.CONFLICT: AckStatus.REJECTED,
}
_REASON = {
    AckStatus.RETRY: "the archive refuses writes",
    AckStatus.REJECTED: (
        "conflict: other records are archived under these numbers; was the spool restored from a "
        "copy, or do two devices have one id?"
    ),
}

Reply = Callable[[Ack], None]
"""Takes an ack to whoever sent the envelope; never blocks, and may find nobody there. Equal
replies lead to the same sender, so that acks to it can be joined."""

Settled = Callable[[], None]
"""Told once for each envelope that it was answered, whatever the answer."""


Sender = str | Reply
"""Who takes turns with others: a device, where the transport knows which, or a connection."""


class Sink(Protocol):
    """What the acceptor needs of the archive."""

    def append(self, batch: Sequence[Received]) -> list[Kept]:
        """Store a batch durably; see :meth:`edgesweep_collector.archive.archive.Archive.append`."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    received: Received
    sender: Sender
    reply: Reply
    settled: Settled


def _nothing() -> None:
    pass


class Acceptor:
    """Takes envelopes from the transports and archives them, one group at a time.

    No envelope is acknowledged as stored, or as a duplicate, before the archive has committed.
    Senders take turns, and each may have only so much in the queue, which is bounded: one that
    submits faster than the archive commits has to wait, and the others do not.

    Args:
        archive: Where envelopes go; its ``append`` is called in one worker thread at a time.
        counters: What is counted.
        clock: Wall time in ns since 1970.
        monotonic: Seconds that no step of the clock changes.
        sleep: Waits that many seconds.
    """

    def __init__(
        self,
        archive: Sink,
        counters: Counters,
        clock: Callable[[], int] = time.time_ns,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._archive = archive
        self._counters = counters
        self._clock = clock
        self._monotonic = monotonic
        self._sleep = sleep
        self._turns: Turns[_Waiting] = Turns(_LINE, _QUEUE_BYTES, _SHARE)
        self._refusals = Refusals(_TELL_EVERY_S)
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        self._news = anyio.Event()
        self._room: dict[Sender, anyio.Event] = {}
        self._closed = False
        self._worker = anyio.CapacityLimiter(1)
        self._done = anyio.Event()
        self._failures = 0
        self._failing_since_s = 0.0

    async def submit(
        self,
        raw: bytes,
        identity: str | None,
        transport: str,
        reply: Reply,
        settled: Settled = _nothing,
    ) -> None:
        """Hand in one envelope; returns when it is queued, or was refused.

        Waits while the queue has no room for more of this sender; for a sender of nothing but
        what has to be refused it also waits a little.

        Args:
            raw: The bytes as they arrived.
            identity: The sender's device id as the transport knows it, or ``None``.
            transport: Its name, for the archive and the counters.
            reply: Where the ack goes.
            settled: Called once when the envelope was answered.

        Raises:
            anyio.ClosedResourceError: after :meth:`drain`.
        """
        sender = identity or reply
        checked = self._checked(raw, identity, transport)
        if isinstance(checked, Refusal):
            in_a_row = self._refuse(checked, sender, transport, reply)
            _guarded(settled)
            if in_a_row > _PATIENCE:
                await self._sleep(_SLOWED_S)
            return
        while not self._turns.has_room(sender):
            await self._room.setdefault(sender, anyio.Event()).wait()
            self._check_open()
        self._put(_Waiting(checked, sender, reply, settled))

    def offer(
        self,
        raw: bytes,
        identity: str | None,
        transport: str,
        reply: Reply,
        settled: Settled = _nothing,
    ) -> bool:
        """As :meth:`submit`, but never waits: for a transport on which senders share one line.

        Returns:
            Whether it was queued or refused. Else there is no room for more of this sender, which
            is told nothing, as ``settled`` is not: what gets no ack is sent again.
        """
        sender = identity or reply
        if not self._turns.has_room(sender):
            self._check_open()
            self._counters.retries.inc()
            return False
        checked = self._checked(raw, identity, transport)
        if isinstance(checked, Refusal):
            self._refuse(checked, sender, transport, reply)
            _guarded(settled)
        else:
            self._put(_Waiting(checked, sender, reply, settled))
        return True

    async def run(self) -> None:
        """Archive what is submitted until :meth:`drain` was called and the queue is empty."""
        try:
            while True:
                if group := self._turns.take(_GROUP):
                    self._let_in({waiting.sender for waiting in group})
                    await self._settle(group)
                elif self._closed:
                    return
                else:
                    self._news = anyio.Event()
                    await self._news.wait()
        finally:
            self._close()
            self._done.set()

    async def drain(self) -> None:
        """Take nothing more, and return when everything that was taken is answered."""
        self._close()
        await self._done.wait()

    def close(self) -> None:
        """Free the queue; what is still in it stays unanswered, and is sent again."""
        self._close()
        self._turns = Turns(_LINE, _QUEUE_BYTES, _SHARE)

    def health(self) -> str | None:
        """What is wrong with the archive; ``None`` if the last commit went well."""
        return "the archive refuses writes" if self._failures else None

    def heard(self) -> frozenset[str]:
        """The devices that have lately sent something by us, and so may be reached."""
        return frozenset(self._replies)

    def tell(self, ack: Ack) -> None:
        """Send an ack that answers no envelope to a device: what it is asked for again."""
        reply = self._replies.get(ack.device_id)
        if reply is not None:
            _guarded(partial(reply, ack))

    def _checked(self, raw: bytes, identity: str | None, transport: str) -> Received | Refusal:
        self._check_open()
        now = self._clock()
        self._counters.received.labels(transport).inc()
        self._counters.last_received.set(now / 1e9)
        return check(raw, identity, now, transport)

    def _check_open(self) -> None:
        if self._closed:
            raise anyio.ClosedResourceError

    def _put(self, waiting: _Waiting) -> None:
        device_id = waiting.received.envelope.device_id
        self._refusals.accepted(waiting.sender)
        self._replies[device_id] = waiting.reply
        self._replies.move_to_end(device_id)
        if len(self._replies) > _MOST_DEVICES:
            self._replies.popitem(last=False)
        self._turns.put(waiting.sender, waiting, len(waiting.received.raw))
        self._news.set()

    def _let_in(self, served: set[Sender]) -> None:
        for sender in served & self._room.keys():
            self._room.pop(sender).set()

    def _close(self) -> None:
        self._closed = True
        self._news.set()
        self._let_in(set(self._room))

    async def _settle(self, group: list[_Waiting]) -> None:
        kept = await self._archived([waiting.received for waiting in group])
        statuses = [AckStatus.RETRY if one is None else _STATUS[one] for one in kept]
        self._count(kept)
        for reply, ack in _acks(group, statuses, self._retry_after_s()):
            _guarded(partial(reply, ack))
        for waiting in group:
            _guarded(waiting.settled)

    def _count(self, kept: list[Kept | None]) -> None:
        new, conflicts = kept.count(Kept.STORED), kept.count(Kept.CONFLICT)
        self._counters.stored.inc(new)
        self._counters.archive_rows.inc(new)
        self._counters.duplicates.inc(kept.count(Kept.DUPLICATE))
        self._counters.retries.inc(kept.count(None))
        if conflicts:
            self._counters.rejected.labels(reason="conflict").inc(conflicts)
            _log.error("records under numbers that others have", extra={"count": conflicts})

    async def _archived(self, batch: list[Received]) -> list[Kept | None]:
        """What became of each envelope; ``None`` of one that the archive did not take."""
        try:
            with self._counters.commit_seconds.time():
                stored = await anyio.to_thread.run_sync(
                    self._archive.append, batch, limiter=self._worker
                )
        except ArchiveUnavailable as error:
            self._failed(str(error))
            if self._closed or self._failing_s() >= _HOLD_S:
                return [None] * len(batch)
            await self._sleep(_AGAIN_S)
            return await self._archived(batch)
        except Exception:  # noqa: BLE001 -- one bad envelope must not end ingest
            if len(batch) > 1:
                # Nor keep those out that came with it.
                return [kept for one in batch for kept in await self._archived([one])]
            self._failed("archiving failed", with_traceback=True)
            return [None]
        if self._failures:
            _log.warning("the archive writes again", extra={"refused": self._failures})
            self._failures = 0
        return list(stored)

    def _failed(self, message: str, *, with_traceback: bool = False) -> None:
        # Once per outage: on a full disk, lines about it would keep it full (SPL-02).
        if self._failures == 0:
            self._failing_since_s = self._monotonic()
            _log.error(message, exc_info=with_traceback)
        self._failures += 1

    def _retry_after_s(self) -> float:
        # As long again as it has lasted, however much came meanwhile: what waits is then here
        # soon after a short outage, and seldom sent in vain in a long one.
        return min(max(_MIN_RETRY_AFTER_S, self._failing_s()), _MAX_RETRY_AFTER_S)

    def _failing_s(self) -> float:
        return self._monotonic() - self._failing_since_s

    def _refuse(self, refusal: Refusal, sender: Sender, transport: str, reply: Reply) -> int:
        """Count, tell and answer a refusal; how many the sender has had in a row."""
        self._counters.rejected.labels(refusal.reason).inc()
        telling = self._refusals.refused(sender, self._monotonic())
        if telling is not None:
            _log.warning(
                "refused an envelope",
                extra={
                    "reason": refusal.reason,
                    "detail": refusal.detail,
                    "device": refusal.device_id,
                    "seq": refusal.seq,
                    "transport": transport,
                    "in_a_row": telling.in_a_row,
                    "unsaid": telling.unsaid,
                },
            )
        ack = _rejection(refusal)
        if ack is not None:
            _guarded(partial(reply, ack))
        return self._refusals.in_a_row(sender)


def _rejection(refusal: Refusal) -> Ack | None:
    """The ack that makes the sender set the envelope aside; ``None`` if it cannot be named."""
    if refusal.device_id is None or refusal.epoch is None or refusal.seq is None:
        return None
    if not is_device_id(refusal.device_id):
        return None
    return Ack(
        device_id=refusal.device_id,
        epoch=refusal.epoch,
        ranges=((refusal.seq, refusal.seq),),
        status=AckStatus.REJECTED,
        reason=f"{refusal.reason}: {refusal.detail}",
    )


def _acks(
    group: Sequence[_Waiting], statuses: Sequence[AckStatus], retry_after_s: float
) -> list[tuple[Reply, Ack]]:
    """One ack for each sender, device, epoch and status of the group."""
    seqs: dict[tuple[Reply, str, int, AckStatus], list[int]] = defaultdict(list)
    for waiting, status in zip(group, statuses, strict=True):
        envelope = waiting.received.envelope
        seqs[waiting.reply, envelope.device_id, envelope.epoch, status].append(envelope.seq)
    return [
        (reply, _ack(device_id, epoch, numbers, status, retry_after_s))
        for (reply, device_id, epoch, status), numbers in seqs.items()
    ]


def _ack(
    device_id: str, epoch: int, seqs: Sequence[int], status: AckStatus, retry_after_s: float
) -> Ack:
    retry = status is AckStatus.RETRY
    return Ack(
        device_id=device_id,
        epoch=epoch,
        ranges=to_ranges(seqs),
        status=status,
        reason=_REASON.get(status, ""),
        retry_after_s=retry_after_s if retry else 0.0,
    )


def _guarded(call: Callable[[], None]) -> None:
    """Answer one sender; what goes wrong there must not touch the others."""
    try:
        call()
    except Exception:  # noqa: BLE001 -- an ack that is lost only causes a resend
        _log.exception("an ack could not be handed over")
