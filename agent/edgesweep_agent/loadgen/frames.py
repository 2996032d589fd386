"""What goes between the load generator and its parent: length-prefixed MessagePack.

A frame is a big-endian 32-bit length, one byte for its kind, and the body. The parent needs the
kind alone while a level runs, so that it need not decode what it only keeps.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB = b"J"
COUNTS = b"C"
EXCHANGE = b"X"
CUT = b"W"
"""As ``EXCHANGE``, of a warm-up request that was under way when the level was stopped."""
ENDED = b"E"

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()


class Ended(msgspec.Struct, frozen=True):
    """The last frame of a level.

    Attributes:
        stopped: Why it ended early: ``deadline``, ``asked``, ``precision`` (its throughput is
            known well enough; nothing was cancelled), ``silent`` (waves of requests timed out
            without a token; likewise), or "" if it did not.
        warmup_burst_s: Makespan of each whole warm-up burst.
        warmup_agreed: The last two of them took equally long.
        cpu_s: Processor time of the load generator during the measured requests.
        lag_max_s, lag_p99_s: How late its 50 ms timer was: what its own load may have added to
            times.
        realtime: It had a real-time priority, so that a busy engine did not delay its clock.
    """

    stopped: str
    n_warmup: int
    warmup_failed_by: dict[str, int]
    warmup_burst_s: list[float]
    warmup_agreed: bool
    cpu_s: float
    lag_max_s: float
    lag_p99_s: float
    realtime: bool


def frame(kind: bytes, body: object) -> bytes:
    """One frame, ready to write."""
    packed = _encoder.encode(body)
    return _LENGTH.pack(len(packed)) + kind + packed


class FrameReader:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The frames that these bytes complete, as (kind, body)."""
        self._buffer += data
        start, prefix = 0, _LENGTH.size + 1
        while len(self._buffer) - start >= prefix:
            body_at = start + prefix
            end = body_at + _LENGTH.unpack_from(self._buffer, start)[0]
            if len(self._buffer) < end:
                break
            yield bytes(self._buffer[body_at - 1 : body_at]), bytes(self._buffer[body_at:end])
            start = end
        del self._buffer[:start]
