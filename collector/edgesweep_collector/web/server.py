"""uvicorn inside the collector's own event loop."""

from __future__ import annotations

import logging
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgesweep_collector.errors import ListenError, SettingsError
from edgesweep_collector.settings import HttpSettings, Listen, listen
from edgesweep_collector.tls import Renewable, Role, server_context

from .access import Access, with_peer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from starlette.types import ASGIApp

_log = logging.getLogger(__name__)


class HttpServer:
    """Serves an application on one address, to those whom the settings let in.

    Args:
        app: What is served.
        settings: Where, and to whom; port 0 lets the system choose.

    Raises:
        SettingsError: the address is open to others and nobody is kept out, or a file of the
            settings is of no use.
        ListenError: the address cannot be bound.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        address = listen(settings.listen, "http.listen")
        _refuse_open(address, settings)
        access = Access(app, settings)
        files = settings.tls and Renewable(settings.tls, "http.tls", Role.SERVER)
        self._socket = _bound(address)
        # No log set-up of its own, no line for each request: a scrape every 15 s says nothing.
        config = uvicorn.Config(
            access,
            http=_Protocol,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        config.load()
        config.ssl = server_context(files) if files else None
        self._server = _Server(config)
        port = self._socket.getsockname()[1]
        _log.info("http listens", extra={"host": address.host, "port": port})

    async def run(self) -> None:
        """Serve until :meth:`stop`."""
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Let requests in flight end within a second, then :meth:`run` returns."""
        self._server.should_exit = True

    def close(self) -> None:
        """Free the address, after :meth:`run` has returned or was never called."""
        self._socket.close()


class _Protocol(H11Protocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let the application see the certificate, which uvicorn keeps to itself."""
        super().connection_made(transport)
        self.app = with_peer(self.app, transport.get_extra_info("peercert"))


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the composition root, which stops the parts in their order."""
        yield


def _refuse_open(address: Listen, settings: HttpSettings) -> None:
    if address.is_loopback or settings.tls is not None:
        return
    if settings.token_file is None:
        raise SettingsError(
            f"http.listen: {address} is not a loopback address, and anyone who reaches it could "
            "read what the fleet measured; set http.token_file or [http.tls], or listen on "
            "127.0.0.1"
        )
    _log.warning("http: the token travels unencrypted to %s; set [http.tls] as well", address)


def _bound(address: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise ListenError(f"http.listen: cannot bind {address}: {error.strerror}") from error
