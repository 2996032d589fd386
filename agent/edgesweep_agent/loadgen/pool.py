"""Connections to the endpoints, which take turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .connector import Connector

if TYPE_CHECKING:
    from edgesweep_agent.core.exchange import Ending

    from .connection import Connection
    from .job import Endpoint, LevelJob
    from .selector import ReadingSelector


class NoConnectionError(Exception):
    """No connection came about; ``ending`` is that of the exchange that needed it."""

    def __init__(self, ending: Ending, why: str) -> None:
        super().__init__(why)
        self.ending = ending


class Lease:
    """A connection for one request, and what the request says to this endpoint."""

    def __init__(self, job: LevelJob, place: _Place, connection: Connection) -> None:
        self.connection = connection
        self.place = place
        self._job = job

    def request(self, body: bytes) -> bytes:
        """The bytes of a request to the connection's endpoint."""
        return self._job.request(self.place.endpoint, body)


class _Place:
    """One endpoint with its free connections, the last used on top."""

    def __init__(self, endpoint: Endpoint, connector: Connector) -> None:
        self.endpoint = endpoint
        self.connector = connector
        self.free: list[Connection] = []


class Pool:
    """Hands out connections, endpoint by endpoint in turn.

    A connection is used again only where the job says so and the server agrees.

    Args:
        job: The level.
        selector: Reads plain connections, if given.
    """

    def __init__(self, job: LevelJob, selector: ReadingSelector | None = None) -> None:
        self._job = job
        self._turn = 0
        self._in_use: set[Connection] = set()
        self._places = [
            _Place(
                endpoint,
                Connector(
                    endpoint,
                    timeout_s=job.request_timeout_s,
                    ca_file=job.ca_file,
                    selector=selector,
                ),
            )
            for endpoint in job.endpoints
        ]

    async def take(self) -> Lease:
        """A connection to the endpoint whose turn it is.

        Raises:
            NoConnectionError: None came about.
        """
        place = self._places[self._turn % len(self._places)]
        self._turn += 1
        while place.free:
            connection = place.free.pop()
            if connection.usable:
                break
            await connection.close()
        else:
            connection = await self._open(place)
        self._in_use.add(connection)
        return Lease(self._job, place, connection)

    async def give_back(self, lease: Lease, *, reusable: bool) -> None:
        """Keeps a connection that can carry another request; closes any other."""
        self._in_use.discard(lease.connection)
        if self._job.keep_alive and reusable and lease.connection.usable:
            lease.place.free.append(lease.connection)
        else:
            await lease.connection.close()

    async def close(self) -> None:
        """Closes all: what is kept, and what nobody came to use."""
        for connection in list(self._in_use):
            await connection.close()
        for place in self._places:
            while place.free:
                await place.free.pop().close()

    def parse(self) -> None:
        """Has parsed what was read and set aside."""
        for connection in self._in_use:
            connection.parse()

    async def _open(self, place: _Place) -> Connection:
        try:
            return await place.connector.connect()
        except (asyncio.TimeoutError, TimeoutError):
            error = f"no connection within {self._job.request_timeout_s:g} s"
            raise NoConnectionError("timeout", error) from None
        except OSError as refusal:
            raise NoConnectionError("refused", str(refusal)) from refusal
