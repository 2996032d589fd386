"""What the load generator is told: one level, ready to send."""

from __future__ import annotations

import msgspec

_BREAKS = "\r\n\0"


class Counts(msgspec.Struct, frozen=True):
    """How far a level is.

    Attributes:
        measuring: The warm-up is over.
        done: Requests of this phase that ended well, as far as HTTP tells.
        failed: Those that did not.
        total: All of this phase.
    """

    measuring: bool
    done: int
    failed: int
    total: int


class LevelJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One level: C workers, each sending its next request when its last has ended.

    Attributes:
        scheme: ``http`` or ``https``.
        host: Name or address, bare: an IPv6 address has no brackets.
        path: With its query, if any.
        headers: Sent with each request beside those of HTTP itself; may hold a secret, which
            is why a job travels by pipe and not by argument.
        bodies: JSON of the measured requests, in order; their position is ``Exchange.index``.
        warmup_bodies: JSON of the requests sent and drained before; only counted.
        concurrency: Requests in flight at once.
        request_timeout_s: Bound on a connection attempt, and on a request from its send.
        idle_timeout_s: Bound on silence. An engine that queues says nothing for as long as the
            queue is, so that this must be longer; ``None`` for no bound.
        deadline_s: Bound on the whole level, warm-up included: then no request is started, and
            the running ones are cancelled.
        keep_alive: Use a connection again where the server agrees. Otherwise each request has
            its own, opened before the request is timed.
        ca_file: Certificates to trust instead of the system's.
    """

    scheme: str
    host: str
    port: int
    path: str
    bodies: list[bytes]
    warmup_bodies: list[bytes] = []
    headers: dict[str, str] = {}
    concurrency: int
    request_timeout_s: float
    idle_timeout_s: float | None = None
    deadline_s: float | None = None
    keep_alive: bool = False
    ca_file: str | None = None

    def __post_init__(self) -> None:
        """Refuses what could not be sent.

        Raises:
            ValueError: On another scheme, a concurrency under one, a host that no resolver takes,
                or a header that HTTP cannot carry.
        """
        # Raises for an empty or overlong label, which getaddrinfo would do for each request.
        self.host.encode("idna")
        if self.scheme not in ("http", "https"):
            raise ValueError(f"scheme must be http or https, not {self.scheme!r}")
        if self.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {self.concurrency}")
        for name, value in self.headers.items():
            if any(sign in name + value for sign in _BREAKS):
                raise ValueError(f"header {name!r} has a line break")
        if any(sign in self.path for sign in (*_BREAKS, " ")):
            raise ValueError(f"path {self.path!r} has a space or a line break")
        # Raises for what Latin-1 cannot say.
        self.request(b"")

    @property
    def authority(self) -> str:
        """Host and port as the ``Host`` header wants them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def request(self, body: bytes) -> bytes:
        """The bytes of one request."""
        fields = {
            "Host": self.authority,
            "Accept": "text/event-stream, */*",
            # A compressor in between would hold tokens back.
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            **{name.title(): value for name, value in self.headers.items()},
            "Content-Length": str(len(body)),
            "Connection": "keep-alive" if self.keep_alive else "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST {self.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body
