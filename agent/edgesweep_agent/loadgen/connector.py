"""Opens connections to one endpoint, resolving its name once."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import TYPE_CHECKING

from .connection import Connection

if TYPE_CHECKING:
    from .job import Endpoint
    from .selector import ReadingSelector


class Connector:
    """The way to an endpoint; addresses are tried in the resolver's order, the good one first.

    Args:
        endpoint: Where to.
        timeout_s: Bound on an attempt.
        ca_file: Certificates to trust instead of the system's.
        selector: Reads plain connections, if given.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float,
        ca_file: str | None,
        selector: ReadingSelector | None,
    ) -> None:
        self._host, self._port = endpoint.host, endpoint.port
        self._timeout_s = timeout_s
        self._addresses: list[str] = []
        self._resolving = asyncio.Lock()
        self._tls: ssl.SSLContext | None = None
        if endpoint.scheme == "https":
            self._tls = ssl.create_default_context(cafile=ca_file)
        self._selector = selector if self._tls is None else None

    async def connect(self) -> Connection:
        """A fresh connection, its TLS handshake done.

        Raises:
            OSError: No address let us in.
            asyncio.TimeoutError: None did in time.
        """
        return await asyncio.wait_for(self._connect(), self._timeout_s)

    async def _connect(self) -> Connection:
        refusal = OSError(f"no address for {self._host}")
        for address in await self._resolved():
            try:
                connection = await self._open(address)
            except OSError as error:
                refusal = error
            else:
                self._addresses.sort(key=lambda other: other != address)
                return connection
        raise OSError(self._told(refusal)) from refusal

    def _told(self, error: OSError) -> str:
        """The system's words; those of asyncio leave out why a connection failed."""
        worded = isinstance(error, (ssl.SSLError, socket.gaierror)) or not error.errno
        return f"{self._host}:{self._port}: {error if worded else os.strerror(error.errno or 0)}"

    async def _resolved(self) -> list[str]:
        # A burst's connections are opened together and need one lookup.
        async with self._resolving:
            if not self._addresses:
                found = await asyncio.get_running_loop().getaddrinfo(
                    self._host, self._port, type=socket.SOCK_STREAM
                )
                self._addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        return list(self._addresses)

    async def _open(self, address: str) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(self._selector),
            address,
            self._port,
            ssl=self._tls,
            server_hostname=self._host if self._tls else None,
        )
        return connection
