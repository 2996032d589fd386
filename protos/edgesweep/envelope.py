"""Envelopes and acks: what wraps a record on its way, and the receipt that comes back.

An envelope is frozen when it is spooled; a resend has the same bytes. ``(epoch, seq)``
identifies it for transport, whatever it carries.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from .records import ClockQuality, Kind
from .v1 import transport_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = 1
MAX_PAYLOAD_BYTES = 256 * 1024
"""What one envelope may carry; far under the 4 MiB default of gRPC and a broker's limit."""


class WireError(ValueError):
    """Bytes that are not what they claim to be; the message says in which respect."""


class AckStatus(Enum):
    """What the collector did with a range of envelopes."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    RETRY = "retry"
    RESEND = "resend"
    """No receipt: the archive lacks these, and asks for them again."""


@dataclass(frozen=True, slots=True)
class UnknownKind:
    """What a newer version calls by ``number``; its payload is kept, and read after an upgrade."""

    number: int

    @property
    def value(self) -> str:
        """What stands in for its name."""
        return f"kind-{self.number}"


@dataclass(frozen=True, slots=True)
class Envelope:
    """One record on its way, with the raw times as the device saw them."""

    device_id: str
    epoch: int
    seq: int
    boot_id: str
    agent_version: str
    kind: Kind | UnknownKind
    wall_ns: int
    mono_ns: int
    clock: ClockQuality
    payload: bytes
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Ack:
    """A receipt for ranges (first, last; both inclusive) of one device's epoch."""

    device_id: str
    epoch: int
    ranges: tuple[tuple[int, int], ...]
    status: AckStatus
    reason: str = ""
    retry_after_s: float = 0.0


_KINDS = {int(pb.Kind.Value(kind.name)): kind for kind in Kind}
_CLOCKS = {int(pb.ClockQuality.Value(clock.name)): clock for clock in ClockQuality}
_ACKS = {int(pb.Ack.Status.Value(status.name)): status for status in AckStatus}


def encode(envelope: Envelope) -> bytes:
    """The bytes of an envelope, its payload protected by a CRC-32.

    Raises:
        WireError: of a kind that this version does not know; such bytes are only ever kept.
    """
    if isinstance(envelope.kind, UnknownKind):
        raise WireError(f"{envelope.kind.value} is unknown to this version")
    return pb.Envelope(
        device_id=envelope.device_id,
        epoch=envelope.epoch,
        seq=envelope.seq,
        boot_id=envelope.boot_id,
        schema=envelope.schema,
        agent_version=envelope.agent_version,
        kind=envelope.kind.name,
        wall_ns=envelope.wall_ns,
        mono_ns=envelope.mono_ns,
        clock=envelope.clock.name,
        payload=envelope.payload,
        crc32=zlib.crc32(envelope.payload),
    ).SerializeToString(deterministic=True)


def decode(data: bytes) -> Envelope:
    """The envelope in ``data``.

    Raises:
        WireError: not an envelope, a damaged payload, or one without a kind.
    """
    try:
        message = pb.Envelope.FromString(data)
    except DecodeError as error:
        raise WireError(f"not an envelope: {error}") from error
    if zlib.crc32(message.payload) != message.crc32:
        raise WireError("crc: the payload is damaged")
    if message.kind == pb.KIND_UNSPECIFIED:
        raise WireError("kind: it has none")
    return Envelope(
        device_id=message.device_id,
        epoch=message.epoch,
        seq=message.seq,
        boot_id=message.boot_id,
        agent_version=message.agent_version,
        kind=_KINDS.get(message.kind) or UnknownKind(message.kind),
        wall_ns=message.wall_ns,
        mono_ns=message.mono_ns,
        clock=_CLOCKS.get(message.clock, ClockQuality.UNSYNCED),
        payload=message.payload,
        schema=message.schema,
    )


def encode_ack(ack: Ack) -> bytes:
    """The bytes of an ack."""
    return pb.Ack(
        device_id=ack.device_id,
        epoch=ack.epoch,
        ranges=[pb.SeqRange(first=first, last=last) for first, last in ack.ranges],
        status=ack.status.name,
        reason=ack.reason,
        retry_after_s=ack.retry_after_s,
    ).SerializeToString(deterministic=True)


def decode_ack(data: bytes) -> Ack:
    """The ack in ``data``.

    Raises:
        WireError: not an ack, a status this version does not know, or a range turned round.
    """
    try:
        message = pb.Ack.FromString(data)
    except DecodeError as error:
        raise WireError(f"not an ack: {error}") from error
    if message.status not in _ACKS:
        raise WireError(f"ack status {message.status} is unknown to this version")
    ranges = tuple((r.first, r.last) for r in message.ranges)
    if any(first > last for first, last in ranges):
        raise WireError(f"ack ranges {ranges} are turned round")
    return Ack(
        device_id=message.device_id,
        epoch=message.epoch,
        ranges=ranges,
        status=_ACKS[message.status],
        reason=message.reason,
        retry_after_s=message.retry_after_s,
    )


def to_ranges(seqs: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Sequence numbers as the fewest inclusive ranges, ascending."""
    ranges: list[tuple[int, int]] = []
    for seq in sorted(set(seqs)):
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return tuple(ranges)
