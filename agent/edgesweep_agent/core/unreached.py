"""Why a question to a server had no answer: the cause, its words, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Cause(Enum):
    """What kept an answer away, the most telling first."""

    WRONG_SCHEME = "wrong_scheme"
    UNTRUSTED = "untrusted"
    NO_TLS = "no_tls"
    TLS_FAILED = "tls_failed"
    NO_HTTP = "no_http"
    SILENT = "silent"
    CLOSED = "closed"
    UNCONNECTED = "unconnected"
    UNRESOLVED = "unresolved"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Unreached:
    """A question without an answer.

    Attributes:
        said: What the system, the TLS library or the other side said; for ``WRONG_SCHEME`` the
            address that does answer; for ``SILENT`` what of an answer has not come, if not a byte.
    """

    cause: Cause
    said: str = ""

    @property
    def passes(self) -> bool:
        """Whether a server that is still starting looks like this."""
        return self.cause in _PASSING

    @property
    def what(self) -> str:
        """What is the case, without the address."""
        said = f" ({self.said})" if self.said else ""
        return {
            Cause.WRONG_SCHEME: f"answers only as {self.said}",
            Cause.UNTRUSTED: f"its certificate is not trusted{said}",
            Cause.NO_TLS: f"does not speak TLS{said}",
            Cause.TLS_FAILED: f"the TLS handshake fails{said}",
            Cause.NO_HTTP: f"does not speak HTTP{said}",
            Cause.SILENT: f"accepts connections and has sent {self.said or 'no byte'}",
            Cause.CLOSED: "accepts connections and closes them without an answer",
            Cause.UNCONNECTED: f"cannot be reached{said}",
            Cause.UNRESOLVED: f"its host name has no address{said}",
            Cause.REFUSED: f"nothing listens there{said}",
        }[self.cause]

    def of(self, question: str) -> str:
        """What is the case with one question, where others have answers."""
        if self.cause is Cause.SILENT:
            return f"{self.said or 'no byte'} in answer to {question}"
        return f"{question}: {self.what}"

    @property
    def step(self) -> str:
        """What to do next."""
        if self.cause is Cause.UNTRUSTED:
            return _of_certificate(self.said.lower())
        return _STEPS[self.cause]


_PASSING = frozenset(
    {Cause.SILENT, Cause.CLOSED, Cause.UNCONNECTED, Cause.UNRESOLVED, Cause.REFUSED}
)
_STEPS = {
    Cause.WRONG_SCHEME: "give that address",
    Cause.NO_TLS: "correct the port, or give http:// if it is a plain one",
    Cause.TLS_FAILED: "look at the server's log",
    Cause.NO_HTTP: "correct the port",
    Cause.SILENT: "look at the server's log: it is starting, busy with a long request, or hung",
    Cause.CLOSED: "look at the server's log, or correct the port "
    "(a container's port listens before the server in it does)",
    Cause.UNCONNECTED: "check the address, the network and firewalls in between",
    Cause.UNRESOLVED: "correct the host name, or give an IP address",
    Cause.REFUSED: "start the server, or correct host and port",
}


def _of_certificate(said: str) -> str:
    if "mismatch" in said or "not valid for" in said:
        return "give the address by a name that the certificate has"
    if "expired" in said or "not yet valid" in said:
        return "renew the certificate, or set the clock of this device"
    return "put SSL_CERT_FILE=CA.pem, its authority's certificate, before the command"


def most_telling(found: Iterable[Unreached]) -> Unreached:
    """Of several questions' causes the one that says most; without any, that nobody listens."""
    order = list(Cause)
    return min(found, key=lambda one: order.index(one.cause), default=Unreached(Cause.REFUSED))
