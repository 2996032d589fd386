"""The pure check of what arrived: an envelope that may be archived, or the reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from edgesweep import envelope as envelopes
from edgesweep.envelope import MAX_PAYLOAD_BYTES, SCHEMA, WireError
from edgesweep.topics import is_device_id
from edgesweep.v1 import transport_pb2 as pb
from edgesweep_collector.archive.rows import Received

if TYPE_CHECKING:
    from edgesweep.envelope import Envelope

# An envelope's own fields are a few hundred bytes; what is far beyond is not even parsed.
_MAX_RAW_BYTES = MAX_PAYLOAD_BYTES + 16 * 1024
_MAX_63_BIT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an envelope is refused for good.

    ``reason`` is one of a fixed set of words, fit for a metric's label; ``detail`` is for people.
    ``device_id``, ``epoch`` and ``seq`` are what the envelope claims, as far as it can be read.
    """

    reason: str
    detail: str
    device_id: str | None = None
    epoch: int | None = None
    seq: int | None = None


def check(raw: bytes, identity: str | None, received_ns: int, transport: str) -> Received | Refusal:
    """Decode and check one envelope.

    Args:
        raw: The bytes as they arrived.
        identity: The device that the transport knows the sender to be; ``None`` if it cannot tell.
        received_ns: Now, in ns since 1970.
        transport: Its name, for the archive.
    """
    if len(raw) > _MAX_RAW_BYTES:
        return Refusal("size", f"{len(raw)} bytes")
    try:
        envelope = envelopes.decode(raw)
    except WireError as error:
        return _unreadable(raw, str(error))
    refused = _objection(envelope, identity)
    if refused is None:
        return Received(raw, envelope, received_ns, transport)
    reason, detail = refused
    return Refusal(reason, detail, envelope.device_id, envelope.epoch, envelope.seq)


def _objection(envelope: Envelope, identity: str | None) -> tuple[str, str] | None:
    if not is_device_id(envelope.device_id):
        return "device_id", f"{envelope.device_id[:80]!r} is no device id"
    if identity is not None and envelope.device_id != identity:
        return "identity", f"{identity} sent an envelope of {envelope.device_id}"
    if envelope.schema < SCHEMA:
        # A later one is kept, and read after an upgrade; there has never been an earlier one.
        return "schema", f"schema {envelope.schema}, which there has never been"
    if len(envelope.payload) > MAX_PAYLOAD_BYTES:
        return "size", f"a payload of {len(envelope.payload)} bytes"
    if max(envelope.epoch, envelope.seq) > _MAX_63_BIT:
        return "sequence", "epoch or sequence number of more than 63 bits"
    return None


def _unreadable(raw: bytes, detail: str) -> Refusal:
    """A refusal that names the envelope where the damage left its name readable."""
    try:
        message = pb.Envelope.FromString(raw)
    except DecodeError:
        return Refusal("not_an_envelope", detail)
    reason, _, rest = detail.partition(": ")
    return Refusal(reason, rest, message.device_id, message.epoch, message.seq)
