"""uvicorn inside the collector's own event loop."""

from __future__ import annotations

import logging
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from edgesweep_collector.errors import ListenError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.applications import Starlette

    from edgesweep_collector.settings import Listen

_log = logging.getLogger(__name__)


class HttpServer:
    """Serves an application on one address.

    Args:
        app: What is served.
        listen: Where; port 0 lets the system choose.

    Raises:
        ListenError: the address cannot be bound.
    """

    def __init__(self, app: Starlette, listen: Listen) -> None:
        self._socket = _bound(listen)
        # No log set-up of its own, no line for each request: a scrape every 15 s says nothing.
        self._server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        port = self._socket.getsockname()[1]
        _log.info("http listens", extra={"host": listen.host, "port": port})

    async def run(self) -> None:
        """Serve until :meth:`stop`."""
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Let requests in flight end within a second, then :meth:`run` returns."""
        self._server.should_exit = True

    def close(self) -> None:
        """Free the address, after :meth:`run` has returned or was never called."""
        self._socket.close()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the composition root, which stops the parts in their order."""
        yield


def _bound(listen: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        return socket.create_server((listen.host, listen.port), family=family)
    except OSError as error:
        raise ListenError(f"http.listen: cannot bind {listen}: {error.strerror}") from error
