"""One request: its connection, its due time, its exchange, its report."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from .flight import Flight, Place, unsent
from .pool import NoConnectionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep_agent.core.exchange import Exchange

    from .job import LevelJob
    from .pool import Lease, Pool

SECOND_NS = 1_000_000_000


async def sleep_until(t_ns: int) -> None:
    """Returns at a monotonic instant, or at once if that has passed."""
    left_ns = t_ns - time.monotonic_ns()
    if left_ns > 0:
        await asyncio.sleep(left_ns / SECOND_NS)


class Sender:
    """Carries requests out, one call each.

    Args:
        job: For its time limits.
        pool: Connections.
        report: Takes each finished exchange.
    """

    def __init__(self, job: LevelJob, pool: Pool, report: Callable[[Exchange], object]) -> None:
        self._job = job
        self._pool = pool
        self._report = report

    async def connect(self) -> Lease | NoConnectionError:
        """A connection, or why there is none: that becomes known when the request is due."""
        try:
            return await self._pool.take()
        except NoConnectionError as error:
            return error

    async def discard(self, lease: Lease | NoConnectionError) -> None:
        """Gives a connection back that nothing was sent on."""
        if not isinstance(lease, NoConnectionError):
            await self._pool.give_back(lease, reusable=True)

    async def send(
        self, place: Place, body: bytes, t_sched_ns: int, lease: Lease | NoConnectionError
    ) -> Exchange:
        """Sends a request now, and returns its exchange when that has ended and was reported.

        Cancelled, it reports what there is of the exchange.
        """
        if isinstance(lease, NoConnectionError):
            now_ns = time.monotonic_ns()
            exchange = unsent(place, t_sched_ns, now_ns, lease.ending, str(lease))
            self._report(exchange)
            return exchange
        flight = Flight(place, t_sched_ns)
        whole_s, idle_s = self._job.request_timeout_s, self._job.idle_timeout_s
        try:
            await lease.connection.perform(flight, lease.request(body), whole_s, idle_s)
        finally:
            exchange = flight.exchange()
            self._report(exchange)
            await self._pool.give_back(lease, reusable=flight.reusable)
        return exchange
