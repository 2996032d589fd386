"""What the load generator is told: one level, ready to send.

A level is a set of tracks, each a stream of requests of its own: a closed loop (workers, each with
one request in flight), an open loop (arrivals at stated times), or conversations whose history
grows by the model's own answers. Tracks start and end by each other: a join after a fan-out, an
operator's session until the fan-out beside it has ended.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

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


class Endpoint(msgspec.Struct, frozen=True):
    """Where requests go.

    Attributes:
        scheme: ``http`` or ``https``.
        host: Name or address, bare: an IPv6 address has no brackets.
        path: With its query, if any.
    """

    scheme: str
    host: str
    port: int
    path: str

    def __post_init__(self) -> None:
        """Refuses what could not be reached.

        Raises:
            ValueError: On another scheme, a host that no resolver takes, or a path that a
                request line cannot carry.
        """
        # Raises for an empty or overlong label, which getaddrinfo would do for each request.
        self.host.encode("idna")
        if self.scheme not in ("http", "https"):
            raise ValueError(f"scheme must be http or https, not {self.scheme!r}")
        if any(sign in self.path for sign in (*_BREAKS, " ")):
            raise ValueError(f"path {self.path!r} has a space or a line break")

    @property
    def authority(self) -> str:
        """Host and port as the ``Host`` header wants them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Turn(msgspec.Struct, frozen=True):
    """One step of a chain: what is said before the model is asked again.

    Attributes:
        messages: Chat messages (role, content ...) appended to the chain's history before this
            step; the model's own answer of the step before stands between them. A message of the
            role ``tool`` without ``tool_call_id`` answers the model's calls in their order.
        fields: The other fields of the request's body (model, max_tokens, response_format ...).
    """

    messages: list[dict[str, Any]]
    fields: dict[str, Any]


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of requests within a level, such as a fan-out's burst or an operator's session.

    Attributes:
        name: Which part of the level a request belongs to; "" if there is but one.
        bodies: JSON of its requests, in order (not with chains).
        chains: Serial conversations instead of bodies: one worker each, history growing. One
            whose step fails ends there.
        concurrency: Closed loop: workers, each sending its next request when its last has ended.
        arrivals_s: Open loop instead: when each body is due, from the start of the track. A
            request is sent when due, whatever is in flight; ``t_sched_ns`` is its due time.
        after: Name of the track that must have ended (all its requests, in whatever way) before
            this one starts.
        after_done: Start when that track has this many ended requests instead, or has ended
            with fewer.
        delay_s: Then wait so long before the start.
        think_s: Closed loop: pause between an answer and the next request; due time includes it.
        until: Name of a track; when that has ended no further request is started here, except
            ``until_more`` further ones.
    """

    name: str = ""
    bodies: list[bytes] = []
    chains: list[list[Turn]] = []
    concurrency: int = 1
    arrivals_s: list[float] | None = None
    after: str = ""
    after_done: int = 0
    delay_s: float = 0.0
    think_s: float = 0.0
    until: str = ""
    until_more: int = 0

    def __post_init__(self) -> None:
        """Refuses what contradicts itself.

        Raises:
            ValueError: Saying which track, and what is wrong with it.
        """
        for problem in self._problems():
            raise ValueError(f"track {self.name!r}: {problem}")

    @property
    def size(self) -> int:
        """Its requests, if none is left out."""
        return len(self.bodies) + sum(len(chain) for chain in self.chains)

    @property
    def timed(self) -> bool:
        """Some of its requests are due at an instant of its own choosing."""
        return self.arrivals_s is not None or self.delay_s > 0 or self.think_s > 0

    def _problems(self) -> list[str]:
        arrivals = self.arrivals_s
        wrong: dict[str, object] = {
            "bodies and chains: give one of them": self.bodies and self.chains,
            "concurrency must be at least 1": self.concurrency < 1,
            "after_done and until_more cannot be negative": min(self.after_done, self.until_more)
            < 0,
            "after_done needs after": self.after_done and not self.after,
            "until_more needs until": self.until_more and not self.until,
            "delay_s and think_s must be finite and not negative": not _is_span(self.delay_s)
            or not _is_span(self.think_s),
            "a track cannot wait for itself": self.name and self.name in (self.after, self.until),
        }
        if arrivals is not None:
            wrong |= {
                "arrivals_s are for bodies, not for chains": self.chains,
                "think_s has no meaning with arrivals_s": self.think_s,
                f"{len(arrivals)} arrivals_s for {len(self.bodies)} bodies": not self.chains
                and len(arrivals) != len(self.bodies),
                "arrivals_s must ascend from 0": not all(map(_is_span, arrivals))
                or any(b < a for a, b in pairwise(arrivals)),
            }
        return [problem for problem, is_wrong in wrong.items() if is_wrong]


class Precision(msgspec.Struct, frozen=True):
    """When a level has been measured well enough to end early.

    Attributes:
        half_width: Of the throughput's 95 % interval, relative to it.
        floor: Completions before which it never ends.
        weights: What each request counts for, by index: the tokens it asks for.
    """

    half_width: float
    floor: int
    weights: list[float]


class LevelJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One level.

    Attributes:
        endpoints: Replicas, taken in turn, request by request; one as a rule.
        tracks: What is measured. ``Exchange.index`` is a request's position over the bodies of
            all tracks; the steps of a track's chains are numbered chain by chain.
        headers: Sent with each request beside those of HTTP itself; may hold a secret, which
            is why a job travels by pipe and not by argument.
        warmup_bodies: JSON of the requests sent before, in bursts; only counted.
        warmup_burst: How many at once, the level's concurrency as a rule. A burst is drained
            before the next.
        warmup_agree: Two successive whole bursts whose makespans differ by no more than this
            part of the longer one end the warm-up; failed requests never agree.
        precision: Ends the level when its throughput is known well enough; for one closed loop.
        request_timeout_s: Bound on a connection attempt, and on a request from its send.
        idle_timeout_s: Bound on silence. An engine that queues says nothing for as long as the
            queue is, so that this must be longer; ``None`` for no bound.
        deadline_s: Bound on the whole level, warm-up included: then no request is started, and
            the running ones are cancelled.
        keep_alive: Use a connection again where the server agrees. Otherwise each request has
            its own, opened before the request is timed.
        ca_file: Certificates to trust instead of the system's.
    """

    endpoints: list[Endpoint]
    tracks: list[Track]
    headers: dict[str, str] = {}
    warmup_bodies: list[bytes] = []
    warmup_burst: int = 1
    warmup_agree: float = 0.1
    precision: Precision | None = None
    request_timeout_s: float
    idle_timeout_s: float | None = None
    deadline_s: float | None = None
    keep_alive: bool = False
    ca_file: str | None = None

    def __post_init__(self) -> None:
        """Refuses what could not be carried out.

        Raises:
            ValueError: No endpoint, a warm-up burst under one, a header that HTTP cannot carry,
                tracks that wait for one another, precision of something else than one loop.
        """
        if not self.endpoints:
            raise ValueError("endpoints: at least one is needed")
        if self.warmup_burst < 1:
            raise ValueError(f"warmup_burst must be at least 1, not {self.warmup_burst}")
        for name, value in self.headers.items():
            if any(sign in name + value for sign in _BREAKS):
                raise ValueError(f"header {name!r} has a line break")
        _check_order(self.tracks)
        if self.precision is not None:
            _check_precision(self.precision, self.tracks)
        for endpoint in self.endpoints:
            # Raises for what Latin-1 cannot say.
            self.request(endpoint, b"")

    def request(self, endpoint: Endpoint, body: bytes) -> bytes:
        """The bytes of one request."""
        fields = {
            "Host": endpoint.authority,
            "Accept": "text/event-stream, */*",
            # A compressor in between would hold tokens back.
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            **{name.title(): value for name, value in self.headers.items()},
            "Content-Length": str(len(body)),
            "Connection": "keep-alive" if self.keep_alive else "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST {endpoint.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def _is_span(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds >= 0


def _check_order(tracks: list[Track]) -> None:
    """Names are told apart and exist; nobody waits for himself by way of others.

    ``after`` and ``until`` are looked at apart: a session may go on until the fan-out has ended
    that starts after the session's third request.
    """
    for name, times in Counter(track.name for track in tracks).items():
        if times > 1:
            raise ValueError(f"{times} tracks are named {name!r}: names tell them apart")
    for field in ("after", "until"):
        waits = {track.name: str(getattr(track, field)) for track in tracks}
        for name, other in waits.items():
            if other and other not in waits:
                raise ValueError(f"track {name!r}: {field} names {other!r}, which is no track")
        for name in waits:
            if loop := _loop(name, waits):
                raise ValueError(f"tracks wait for one another ({field}): {' -> '.join(loop)}")


def _loop(start: str, waits: dict[str, str]) -> list[str]:
    """The way from a track back to itself, or none."""
    way = [start]
    while (name := waits[way[-1]]) and len(way) <= len(waits):
        way.append(name)
        if name == start:
            return way
    return []


def _check_precision(precision: Precision, tracks: list[Track]) -> None:
    if len(tracks) != 1 or not tracks[0].bodies or tracks[0].arrivals_s is not None:
        raise ValueError("precision is of one closed loop: one track with bodies, no arrivals_s")
    if len(precision.weights) != len(tracks[0].bodies):
        raise ValueError(
            f"precision has {len(precision.weights)} weights for {len(tracks[0].bodies)} bodies"
        )
    if not (math.isfinite(precision.half_width) and precision.half_width > 0):
        raise ValueError(f"precision.half_width must be above 0, not {precision.half_width}")
