"""Rows of the spool: what makes one known again, and what of a damaged file may be taken for one.

A row's check covers its whole envelope and its place; an envelope's own covers its payload
alone, and a flipped bit in its number would make another record of it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgesweep import envelope
from edgesweep.envelope import WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep.envelope import Envelope

    from .pages import Value

SEQ_BITS = 48
"""A row's id is the number of its epoch in this file and, in these bits, its sequence number."""
MAX_SEQ = 2**SEQ_BITS - 1


@dataclass(frozen=True, slots=True)
class Frozen:
    """A row as it was stored.

    Attributes:
        reason: Why the collector or the transport refused it; ``None`` if none did.
    """

    epoch: int
    seq: int
    kind: str
    data: bytes
    reason: str | None = None


def row_id(n: int, seq: int) -> int:
    """The id of a row of the file's ``n``-th epoch."""
    return n << SEQ_BITS | seq


def parts_of(row: int) -> tuple[int, int]:
    """(number of the epoch, sequence number) of a row's id."""
    return row >> SEQ_BITS, row & MAX_SEQ


def row_check(epoch: int, seq: int, kind: str, data: bytes) -> int:
    """CRC-32 of a row, its place included."""
    return zlib.crc32(data, zlib.crc32(f"{epoch} {seq} {kind}".encode()))


def fact_check(name: str, value: str) -> int:
    """CRC-32 of one of the file's small facts."""
    return zlib.crc32(f"{name}={value}".encode())


def epoch_check(n: int, epoch: int) -> int:
    """CRC-32 of what says which epoch the file's ``n``-th is."""
    return fact_check(f"epoch {n}", str(epoch))


def mark_check(epoch: int, seq: int) -> int:
    """CRC-32 of what says that a row was delivered."""
    return fact_check(f"{epoch} {seq}", "delivered")


def intact(check: object, data: bytes) -> Frozen | None:
    """The row of an envelope that is as it was stored, wherever it lies; ``None`` if it is not."""
    made = _envelope(data)
    if made is None:
        return None
    kind = made.kind.value
    if check != row_check(made.epoch, made.seq, kind, data):
        return None
    return Frozen(made.epoch, made.seq, kind, data)


def salvaged(columns: Sequence[Value]) -> Frozen | None:
    """The row that is in these columns of a damaged file; ``None`` if none is, or a damaged one.

    Files of 0.1 have no check in their rows: the envelope's own has to do.
    """
    match columns:
        case [None, str(), int(check), bytes(data)]:
            return intact(check, data)
        case [None, str(), int(check), bytes(data), str(reason)]:
            found = intact(check, data)
            return None if found is None else replace(found, reason=reason)
        case [None, int(), str(kind), bytes(data)]:
            return _unchecked(kind, data, None)
        case [None, str(kind), bytes(data), str(reason)]:
            return _unchecked(kind, data, reason)
    return None


def _unchecked(kind: str, data: bytes, reason: str | None) -> Frozen | None:
    made = _envelope(data)
    if made is None or made.kind.value != kind:
        return None
    return Frozen(made.epoch, made.seq, kind, data, reason)


def _envelope(data: bytes) -> Envelope | None:
    try:
        made = envelope.decode(data)
    except WireError:
        return None
    return made if 0 < made.seq <= MAX_SEQ and 0 <= made.epoch < 2**63 else None
