"""Files of envelopes: what a technician carries to a collector, what a backup holds.

``edgesweep.envelopes/1`` and a newline, then one frame after the other: the length of a
``Carried`` message and its CRC-32 (IEEE 802.3, as zlib.crc32), four bytes each, little-endian,
and the message. A file that was cut short, on a stick pulled too early, is good up to its last
whole frame.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from google.protobuf.message import DecodeError

from .envelope import MAX_PAYLOAD_BYTES, WireError
from .v1 import transport_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEAD = b"edgesweep.envelopes/1\n"
_FRAME = struct.Struct("<II")
_MAX_FRAME_BYTES = MAX_PAYLOAD_BYTES + 64 * 1024


@dataclass(frozen=True, slots=True)
class Carried:
    """One envelope as it came off a spool, or with what an archive knows of it.

    Attributes:
        envelope: Its bytes, untouched.
        received_ns: When it was received, in ns since 1970; ``None`` in a device's file.
        effective_wall_ns: The time it counts for; ``None`` while that is not fixed.
        time_source: Why that time.
    """

    envelope: bytes
    received_ns: int | None = None
    transport: str = ""
    effective_wall_ns: int | None = None
    time_source: str = ""


def write(file: BinaryIO, carried: Iterable[Carried]) -> int:
    """Write a whole file of them; how many there were.

    Raises:
        OSError: the file does not take them.
    """
    file.write(HEAD)
    count = 0
    for one in carried:
        count += 1
        body = _encode(one)
        file.write(_FRAME.pack(len(body), zlib.crc32(body)))
        file.write(body)
    return count


def read(file: BinaryIO) -> Iterator[Carried]:
    """What is in a file, one after the other; nothing is read before it is asked for.

    Raises:
        WireError: it is no such file, or from here on it is damaged or cut short; what came
            before is good.
    """
    if file.read(len(HEAD)) != HEAD:
        raise WireError(f"it does not begin with {HEAD.decode().strip()}")
    number = 0
    while frame := file.read(_FRAME.size):
        number += 1
        yield _decode(_body(file, frame, number), number)


def _body(file: BinaryIO, frame: bytes, number: int) -> bytes:
    if len(frame) < _FRAME.size:
        raise WireError(f"cut short in record {number}")
    length, crc = _FRAME.unpack(frame)
    if length > _MAX_FRAME_BYTES:
        raise WireError(f"damaged at record {number}: {length} bytes are too many")
    body = file.read(length)
    if len(body) < length:
        raise WireError(f"cut short in record {number}")
    if zlib.crc32(body) != crc:
        raise WireError(f"damaged at record {number}")
    return body


def _encode(carried: Carried) -> bytes:
    return pb.Carried(
        envelope=carried.envelope,
        received_ns=carried.received_ns or 0,
        transport=carried.transport,
        effective_wall_ns=carried.effective_wall_ns or 0,
        time_source=carried.time_source,
    ).SerializeToString(deterministic=True)


def _decode(body: bytes, number: int) -> Carried:
    try:
        message = pb.Carried.FromString(body)
    except DecodeError as error:
        raise WireError(f"record {number} is none: {error}") from error
    return Carried(
        message.envelope,
        message.received_ns or None,
        message.transport,
        message.effective_wall_ns or None,
        message.time_source,
    )
