"""The one place that accepts: check, archive in groups, and only then acknowledge."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

from edgesweep.envelope import Ack, AckStatus, to_ranges
from edgesweep.topics import is_device_id
from edgesweep_collector.archive.rows import Kept
from edgesweep_collector.errors import ArchiveUnavailable

from .check import Refusal, check

if TYPE_CHECKING:
    from edgesweep_collector.archive.rows import Received
    from edgesweep_collector.counters import Counters

_log = logging.getLogger(__name__)

# What one commit takes, and what may wait (64 MiB of the largest envelopes). While a commit runs
# the queue fills again, so that groups form without any delay.
_GROUP = 64
_QUEUE = 256
_MAX_RETRY_AFTER_S = 60.0

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


class Sink(Protocol):
    """What the acceptor needs of the archive."""

    def append(self, batch: Sequence[Received]) -> list[Kept]:
        """Store a batch durably; see :meth:`edgesweep_collector.archive.archive.Archive.append`."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    received: Received
    reply: Reply
    settled: Settled


def _nothing() -> None:
    pass


class Acceptor:
    """Takes envelopes from the transports and archives them, one group at a time.

    No envelope is acknowledged as stored, or as a duplicate, before the archive has committed.
    The queue is bounded: a transport that submits faster than the archive commits has to wait.

    Args:
        archive: Where envelopes go; its ``append`` is called in one worker thread at a time.
        counters: What is counted.
        clock: Wall time in ns since 1970.
    """

    def __init__(
        self, archive: Sink, counters: Counters, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._archive = archive
        self._counters = counters
        self._clock = clock
        self._in, self._out = anyio.create_memory_object_stream[_Waiting](_QUEUE)
        self._worker = anyio.CapacityLimiter(1)
        self._done = anyio.Event()
        self._failures = 0

    async def submit(
        self,
        raw: bytes,
        identity: str | None,
        transport: str,
        reply: Reply,
        settled: Settled = _nothing,
    ) -> None:
        """Hand in one envelope; returns when it is queued, or was refused at once.

        Args:
            raw: The bytes as they arrived.
            identity: The sender's device id as the transport knows it, or ``None``.
            transport: Its name, for the archive and the counters.
            reply: Where the ack goes.
            settled: Called once when the envelope was answered.

        Raises:
            anyio.ClosedResourceError: after :meth:`drain`.
        """
        now = self._clock()
        self._counters.received.labels(transport).inc()
        self._counters.last_received.set(now / 1e9)
        checked = check(raw, identity, now, transport)
        if isinstance(checked, Refusal):
            self._refuse(checked, transport, reply)
            _guarded(settled)
        else:
            await self._in.send(_Waiting(checked, reply, settled))

    async def run(self) -> None:
        """Archive what is submitted until :meth:`drain` was called and the queue is empty."""
        try:
            with self._out:
                async for first in self._out:
                    await self._settle([first, *self._more()])
        finally:
            self._in.close()
            self._done.set()

    async def drain(self) -> None:
        """Take nothing more, and return when everything that was taken is answered."""
        self._in.close()
        await self._done.wait()

    def close(self) -> None:
        """Free the queue; what is still in it stays unanswered, and is sent again."""
        self._in.close()
        self._out.close()

    def health(self) -> str | None:
        """What is wrong with the archive; ``None`` if the last commit went well."""
        return "the archive refuses writes" if self._failures else None

    def _more(self) -> list[_Waiting]:
        waiting: list[_Waiting] = []
        while len(waiting) < _GROUP - 1:
            try:
                waiting.append(self._out.receive_nowait())
            except (anyio.WouldBlock, anyio.EndOfStream):
                break
        return waiting

    async def _settle(self, group: list[_Waiting]) -> None:
        stored = await self._append([waiting.received for waiting in group])
        if stored is None:
            statuses = [AckStatus.RETRY] * len(group)
            self._counters.retries.inc(len(group))
        else:
            statuses = [_STATUS[kept] for kept in stored]
            self._count(stored)
        for reply, ack in _acks(group, statuses, self._retry_after_s()):
            _guarded(partial(reply, ack))
        for waiting in group:
            _guarded(waiting.settled)

    def _count(self, stored: list[Kept]) -> None:
        new, conflicts = stored.count(Kept.STORED), stored.count(Kept.CONFLICT)
        self._counters.stored.inc(new)
        self._counters.archive_rows.inc(new)
        self._counters.duplicates.inc(stored.count(Kept.DUPLICATE))
        if conflicts:
            self._counters.rejected.labels(reason="conflict").inc(conflicts)
            _log.error("records under numbers that others have", extra={"count": conflicts})

    async def _append(self, batch: list[Received]) -> list[Kept] | None:
        """What became of each envelope; ``None`` if the archive took none of them."""
        try:
            with self._counters.commit_seconds.time():
                stored = await anyio.to_thread.run_sync(
                    self._archive.append, batch, limiter=self._worker
                )
        except ArchiveUnavailable as error:
            self._failed(str(error))
            return None
        except Exception:  # noqa: BLE001 -- one bad batch must not end ingest; it is sent again
            self._failed("archiving failed", with_traceback=True)
            return None
        if self._failures:
            _log.warning("the archive writes again", extra={"refused": self._failures})
            self._failures = 0
        return stored

    def _failed(self, message: str, *, with_traceback: bool = False) -> None:
        # Once per outage: on a full disk, lines about it would keep it full (SPL-02).
        if self._failures == 0:
            _log.error(message, exc_info=with_traceback)
        self._failures += 1

    def _retry_after_s(self) -> float:
        return float(min(2 ** min(self._failures, 6), _MAX_RETRY_AFTER_S))

    def _refuse(self, refusal: Refusal, transport: str, reply: Reply) -> None:
        self._counters.rejected.labels(refusal.reason).inc()
        _log.warning(
            "refused an envelope",
            extra={
                "reason": refusal.reason,
                "detail": refusal.detail,
                "device": refusal.device_id,
                "seq": refusal.seq,
                "transport": transport,
            },
        )
        ack = _rejection(refusal)
        if ack is not None:
            _guarded(partial(reply, ack))


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
