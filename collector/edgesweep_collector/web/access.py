"""Who may read over HTTP: with the token, or with a certificate; ``/healthz`` is for everyone."""

from __future__ import annotations

import hmac
import logging
from datetime import datetime, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from edgesweep.topics import is_device_id
from edgesweep_collector.errors import SettingsError
from edgesweep_collector.peers import Denylist, Peer, peer_of_dict
from edgesweep_collector.settings import secret
from edgesweep_collector.tls import Watched

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from edgesweep_collector.settings import HttpSettings

_log = logging.getLogger(__name__)

OPEN = "/healthz"
LET_IN = "edgesweep.let_in"
"""In the scope: whether the caller may see more than that the service lives."""
PEER = "edgesweep.peercert"
"""In the scope: the caller's certificate as ``getpeercert`` tells it, if it showed one."""

_SHORTEST_TOKEN = 16
_TOKEN_KEY = "http.token_file"  # noqa: S105 -- the name of a setting


class Token:
    """The secret that lets callers in; read again when its file changes.

    Raises:
        SettingsError: the file cannot be read, or what it holds is no token.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = Watched(path)
        self._digest = self._read()

    def matches(self, authorization: bytes) -> bool:
        """Whether a header's value is ``Bearer`` and the token; takes as long whatever it is."""
        self._look()
        scheme, _, given = authorization.partition(b" ")
        same = hmac.compare_digest(sha256(given.strip()).digest(), self._digest)
        return same and scheme.lower() == b"bearer"

    def _look(self) -> None:
        if not self._file.changed():
            return
        try:
            self._digest = self._read()
        except SettingsError as error:
            _log.error("the old token stays: %s", error)

    def _read(self) -> bytes:
        token = secret(self._path, _TOKEN_KEY).strip()
        if len(token) < _SHORTEST_TOKEN or not (token.isascii() and token.isprintable()):
            raise SettingsError(
                f"{_TOKEN_KEY}: {self._path} is to hold one line of at least {_SHORTEST_TOKEN} "
                "printable characters, such as `openssl rand -hex 32` prints"
            )
        return sha256(token.encode()).digest()


class Access:
    """Wraps an application, and answers whoever is not let in.

    Args:
        app: What is protected.
        settings: The ways in; without any, everyone is let in.

    Raises:
        SettingsError: the token or the denylist is of no use.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._token = None if settings.token_file is None else Token(settings.token_file)
        self._tls = settings.tls is not None
        denylist_file = None if settings.tls is None else settings.tls.denylist_file
        self._denylist = Denylist(denylist_file, "http.tls.denylist_file")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the application answer it."""
        refusal = self._refusal(scope)
        app: ASGIApp = self._app
        if refusal is not None and scope["path"] != OPEN:
            app = refusal
        await app({**scope, LET_IN: refusal is None}, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        if self._token is None and not self._tls:
            return None
        if self._token is not None and self._token.matches(_authorization(scope)):
            return None
        certificate = scope.get(PEER)
        if certificate:
            return self._refusal_of(peer_of_dict(certificate))
        headers = {"WWW-Authenticate": "Bearer"} if self._token is not None else {}
        return JSONResponse({"error": f"send {self._wanted()}"}, 401, headers)

    def _refusal_of(self, peer: Peer) -> JSONResponse | None:
        objection = None
        if is_device_id(peer.common_name):
            objection = "it names a device, and devices do not read; use another common name"
        elif not peer.common_name:
            objection = "it names nobody"
        elif self._denylist.denies(peer.common_name, peer.serial):
            objection = "it is on the denylist"
        elif datetime.now(timezone.utc) > peer.not_after:
            objection = "it has expired"
        if objection is None:
            return None
        _log.warning("refused a reader", extra={"peer": str(peer), "why": objection})
        return JSONResponse({"error": f"your certificate does not let you in: {objection}"}, 403)

    def _wanted(self) -> str:
        ways = []
        if self._token is not None:
            ways.append("Authorization: Bearer with the token of http.token_file")
        if self._tls:
            ways.append("a client certificate of the authority in http.tls.ca_file")
        return ", or ".join(ways)


def _authorization(scope: Scope) -> bytes:
    found: list[tuple[bytes, bytes]] = scope.get("headers", [])
    values = [value for name, value in found if name == b"authorization"]
    return values[0] if len(values) == 1 else b""


def with_peer(app: Any, certificate: dict[str, Any] | None) -> ASGIApp:
    """The application as one connection sees it: with the certificate that the caller showed."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, PEER: certificate}, receive, send)

    return called
