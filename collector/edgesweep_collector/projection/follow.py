"""The follower: reads the archive after its cursor, writes lines, then moves the cursor.

At least once: a crash between write and cursor sends the same bytes again, which is no new point.
Ingest never waits for it, and nothing it holds is only in memory.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from edgesweep_collector.errors import ArchiveUnavailable
from edgesweep_collector.projection.batch import levels
from edgesweep_collector.projection.settle import (
    Dead,
    Expired,
    State,
    Stored,
    Wait,
    backoff_s,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from edgesweep_collector.projection.base import Source, Writer
    from edgesweep_collector.projection.batch import Batch
    from edgesweep_collector.projection.settle import Entry

_log = logging.getLogger(__name__)

# Well within a lease, whose term is half a minute.
_RENEW_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How much at once, and how often.

    Attributes:
        batch: Most rows read, and lines written, at once; of telemetry with a hundred readings,
            200 are half a megabyte, of levels less.
        poll_s: Seconds between looks at the archive when nobody calls :meth:`Follower.notify`.
            Rows that come in between make one batch.
    """

    batch: int = 200
    poll_s: float = 1.0


_PACE = Pace()


@dataclass(frozen=True, slots=True)
class Status:
    """Where a projection stands, for health and metrics; counts are since it was started.

    Attributes:
        cursor: Last archive row that is done.
        moved_ns: When this collector last moved the cursor, or found nothing left to do, in ns
            since 1970; 0 before it did.
        lag_rows: Rows read and not done; the batch size means that many or more.
        written: Lines stored by the server, resends included.
        dead_letters: Lines refused for good.
        expired: Lines that are older than the server keeps any.
        dropped_fields: Fields with a value that line protocol cannot express.
        dropped_points: Rows of which that left nothing.
        unknown_metrics: Values of metrics that this version does not know.
        state: How the server, or the archive, took the last request.
        alarm: What a person has to look at: as in :class:`.base.Refused`, or ``archive`` when it
            is the archive that does not answer; empty if nothing.
        last_error: The server's last words of refusal; kept when it recovers.
        standby: Another collector holds the lease, and does the work.
    """

    cursor: int = 0
    moved_ns: int = 0
    lag_rows: int = 0
    written: int = 0
    dead_letters: int = 0
    expired: int = 0
    dropped_fields: int = 0
    dropped_points: int = 0
    unknown_metrics: int = 0
    state: State = State.OK
    alarm: str = ""
    last_error: str = ""
    standby: bool = False


class _LeaseLostError(Exception):
    """Another collector goes on from where the cursor is."""


def _alone() -> bool:
    return True


class Follower:
    """One projection of the archive. Run it in a task group; stop it by cancelling.

    A cancelled run lets a request in flight end first, and leaves the cursor at the last batch
    that was settled as a whole.
    """

    def __init__(
        self,
        source: Source,
        writer: Writer,
        *,
        name: str,
        read: Callable[[Source, int, int], Batch | None] = levels,
        lease: Callable[[], bool] = _alone,
        pace: Pace = _PACE,
        clock: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """Follow ``source`` into ``writer`` with the cursor called ``name``.

        Args:
            source: The archive; called in worker threads, by one at a time.
            writer: The server; likewise.
            name: Names the cursor and the dead letters.
            read: What is followed: :func:`.batch.levels` or :func:`.batch.telemetry`.
            lease: Whether this collector may write now (:class:`.lease.Lease`); asked in the
                worker thread before each look at the archive and before each request.
            pace: How much at once, and how often.
            clock: Nanoseconds since 1970, for the time of a dead letter.
            sleep: Waits that many seconds while the server is not to be asked.
        """
        self._source = source
        self._writer = writer
        self._name = name
        self._next = read
        self._lease = lease
        self._pace = pace
        self._clock = clock
        self._sleep = sleep
        self._status = Status()
        self._news: anyio.Event | None = None

    @property
    def status(self) -> Status:
        """A snapshot."""
        return self._status

    def notify(self) -> None:
        """Say that the archive has new rows. Call it from the event loop; it never blocks."""
        if self._news is not None:
            self._news.set()

    async def run(self) -> None:
        """Follow until cancelled; neither a database nor an archive that is down ends it."""
        failures = 0
        while True:
            # Made before the archive is read: a row committed meanwhile is news.
            self._news = news = anyio.Event()
            try:
                more = await self._advance()
            except ArchiveUnavailable as error:
                failures += 1
                self._hold(Wait(backoff_s(failures), State.UNAVAILABLE, str(error), "archive"))
                await self._sleep(backoff_s(failures))
                continue
            except _LeaseLostError:
                self._stand_by()
                more = False
            failures = 0
            self._recover()
            if not more:
                with anyio.move_on_after(self._pace.poll_s):
                    await news.wait()

    async def _advance(self) -> bool:
        """Settle one batch; whether there may be more."""
        cursor, batch = await to_thread.run_sync(self._read)
        if batch is None:
            self._set(moved_ns=self._clock())
            return False
        dead = await self._deliver(batch.entries)
        if not await to_thread.run_sync(self._commit, dead, cursor, batch.last):
            # Set back meanwhile, to have rows written again: look where to.
            return True
        self._set(cursor=batch.last, lag_rows=0, moved_ns=self._clock())
        self._count(
            dropped_fields=batch.dropped_fields,
            dropped_points=batch.dropped_points,
            unknown_metrics=batch.unknown_metrics,
        )
        return batch.rows >= self._pace.batch

    def _read(self) -> tuple[int, Batch | None]:
        self._hold_lease()
        # Asked each time, so that setting it back rebuilds without a restart.
        cursor = self._source.cursor(self._name)
        found = self._next(self._source, cursor, self._pace.batch)
        self._set(cursor=cursor, lag_rows=found.rows if found else 0, standby=False)
        return cursor, found

    def _write(self, lines: Sequence[str]) -> None:
        self._hold_lease()
        self._writer.write(lines)

    def _hold_lease(self) -> None:
        if not self._lease():
            raise _LeaseLostError

    async def _deliver(self, entries: Sequence[Entry]) -> list[Dead]:
        """Write until every entry is stored, dead or expired; the dead ones."""
        dead = []
        steps = settle(entries, self._write)
        while (step := await to_thread.run_sync(next, steps, None)) is not None:
            if isinstance(step, Wait):
                self._hold(step)
                await self._pause(step.seconds)
                continue
            self._recover()
            if isinstance(step, Stored):
                self._count(written=step.count)
            elif isinstance(step, Expired):
                self._count(expired=step.count)
            else:
                dead.append(step)
                self._bury(step)
        return dead

    async def _pause(self, seconds: float) -> None:
        """Wait, in parts, so that the lease does not run out meanwhile."""
        while seconds > 0:
            part = min(seconds, _RENEW_WITHIN_S)
            await self._sleep(part)
            seconds -= part
            if seconds > 0:
                await to_thread.run_sync(self._hold_lease)

    def _commit(self, dead: Sequence[Dead], cursor: int, row_id: int) -> bool:
        for letter in dead:
            self._source.add_dead_letter(
                self._name, letter.entry.row_id, letter.entry.text, letter.error, self._clock()
            )
        return self._source.set_cursor(self._name, row_id, expected=cursor)

    def _stand_by(self) -> None:
        if not self._status.standby:
            _log.info("another collector projects", extra={"projection": self._name})
        self._set(standby=True, lag_rows=0)

    def _hold(self, step: Wait) -> None:
        if step.state is not self._status.state:
            facts = {"projection": self._name, "error": step.error, "alarm": step.alarm}
            _log.warning("projection is held: %s", step.state.value, extra=facts)
        self._set(state=step.state, alarm=step.alarm, last_error=step.error)

    def _recover(self) -> None:
        if self._status.state is not State.OK:
            _log.info("projection goes on", extra={"projection": self._name})
            self._set(state=State.OK, alarm="")

    def _bury(self, step: Dead) -> None:
        facts = {"projection": self._name, "row_id": step.entry.row_id, "error": step.error}
        _log.error("a line is refused for good", extra=facts)
        self._count(dead_letters=1)
        self._set(last_error=step.error)

    def _set(self, **changes: object) -> None:
        self._status = replace(self._status, **changes)  # type: ignore[arg-type]

    def _count(self, **more: int) -> None:
        self._set(**{name: getattr(self._status, name) + n for name, n in more.items()})
