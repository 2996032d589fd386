"""Why a server could not be reached, and what is on a port that does not speak as it should."""

from __future__ import annotations

import os
import socket
import ssl
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx

from .core.answers import one_line
from .core.unreached import Cause, Unreached

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

GREETING_S = 1.0
"""For a server that speaks first, such as one of SSH, to do so."""
NO_END = "no end"
"""Of an answer that began in time: what :class:`httpx.ReadTimeout` then says."""


def port_of(url: str) -> int:
    """The port of an address, said or not."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def unreached(error: Exception) -> Unreached:
    """Why a question had no answer, from what httpx raised and what that came from.

    httpx 0.28 has the system's and the TLS library's errors only in the chain of causes.
    """
    chain = list(_chain(error))
    if isinstance(error, httpx.ConnectTimeout):
        return Unreached(Cause.UNCONNECTED, "no connection in time")
    if isinstance(error, httpx.TimeoutException):
        return Unreached(Cause.SILENT, NO_END if str(error) == NO_END else "")
    if _first(chain, ssl.SSLEOFError) is not None or _hung_up(error):
        return Unreached(Cause.CLOSED)
    if (tls := _first(chain, ssl.SSLError)) is not None:
        return _no_handshake(tls)
    if isinstance(error, httpx.ConnectError):
        return _unconnected(chain)
    return Unreached(Cause.NO_HTTP, str(error) or type(error).__name__)


def _no_handshake(error: ssl.SSLError) -> Unreached:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreached(Cause.UNTRUSTED, error.verify_message)
    said = (error.reason or str(error)).replace("_", " ").lower()
    return Unreached(Cause.NO_TLS if error.reason in _NO_TLS else Cause.TLS_FAILED, said)


_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
"""OpenSSL's words for bytes that are no TLS."""


def _hung_up(error: Exception) -> bool:
    """A container's published port listens before the server in it does."""
    if isinstance(error, httpx.RemoteProtocolError):
        return "without sending" in str(error)
    return isinstance(error, (httpx.ReadError, httpx.WriteError))


def _unconnected(chain: Sequence[BaseException]) -> Unreached:
    if (name := _first(chain, socket.gaierror)) is not None:
        return Unreached(Cause.UNRESOLVED, name.strerror or "")
    numbers = [one.errno for one in chain if isinstance(one, OSError) and one.errno]
    if numbers and not any(isinstance(one, ConnectionRefusedError) for one in chain):
        return Unreached(Cause.UNCONNECTED, os.strerror(numbers[-1]).lower())
    return Unreached(Cause.REFUSED, "connection refused")


_Error = TypeVar("_Error", bound=BaseException)


def _first(chain: Iterable[BaseException], kind: type[_Error]) -> _Error | None:
    return next((one for one in chain if isinstance(one, kind)), None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error with all that it came from; of several addresses each has its own."""
    while error is not None:
        yield error
        for part in getattr(error, "exceptions", ()):
            yield from _chain(part)
        error = error.__cause__ or error.__context__


async def greeting(url: str, timeout_s: float = GREETING_S) -> str:
    """What a server says without being asked, on one line; an HTTP server says nothing."""
    parts = urlsplit(url)
    try:
        with anyio.fail_after(timeout_s):
            stream = await anyio.connect_tcp(parts.hostname or "", port_of(url))
            async with stream:
                said = (await stream.receive(200)).decode("utf-8", "replace")
    except (OSError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError):
        return ""
    return one_line(said.splitlines()[0]) if said else ""
