"""One HTTP exchange as it was seen on the wire: instants and bytes, nothing interpreted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Ending = Literal[
    "complete", "eof", "reset", "timeout", "refused", "cancelled", "malformed"
]  # fmt: skip
"""How an exchange ended.

``complete``: the message was framed and came whole. ``eof``: the server closed, which ends an
unframed body and cuts a framed one. ``reset``: the connection broke. ``timeout``: the client gave
up. ``refused``: no connection came about (name, route, port or TLS). ``cancelled``: the level was
stopped. ``malformed``: what came was no HTTP.
"""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came back, in monotonic nanoseconds.

    Attributes:
        index: Position of the request among the measured ones of its level, from 0.
        t_sched_ns: When it should have been sent; in a closed loop, when its worker was free.
        t_send_ns: Just before its bytes were written; ``None`` if no connection came about.
        t_headers_ns: When the header block was complete.
        status: HTTP status code; ``None`` if no answer came.
        headers: Names in lower case, with their values, in the order received.
        pieces: Body bytes with the instant of the read that brought them, framing removed.
        t_end_ns: When the exchange was over.
        error: What the operating system or the parser said, for people.
        track: Position of its track in the level.
        chain: Number of its conversation within the track; -1 outside of one.
        step: Its step in the conversation, from 0; -1 outside of one.
    """

    index: int
    t_sched_ns: int
    t_send_ns: int | None
    t_headers_ns: int | None
    status: int | None
    headers: tuple[tuple[str, str], ...]
    pieces: tuple[tuple[int, bytes], ...]
    t_end_ns: int
    ending: Ending
    error: str = ""
    track: int = 0
    chain: int = -1
    step: int = -1

    def header(self, name: str) -> str:
        """The first value of a header (name in lower case), or "" if it was not sent."""
        return next((value for key, value in self.headers if key == name), "")
