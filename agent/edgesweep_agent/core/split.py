"""A record that is larger than the transport takes, as several that are not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgesweep import codec, envelope
from edgesweep.records import Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgesweep.envelope import Envelope
    from edgesweep.records import SensorValue

_LARGEST = 2**63 - 1
"""An epoch and a number that take as many bytes as any."""


class UnsplittableError(ValueError):
    """It has no parts that fit; the message says what it is and how large."""


def split(data: bytes, limit_bytes: int) -> tuple[Callable[[int, int], bytes], ...]:
    """The envelope ``data`` as several of at most ``limit_bytes``: what seals each of them.

    Only telemetry has parts: readings that were taken at the same instant. The times, the boot
    and the device of the parts are those of the whole.

    Raises:
        UnsplittableError: another kind, or a single reading is too large.
    """
    whole = envelope.decode(data)
    too_large = f"{len(data)} bytes, and the transport takes {limit_bytes}"
    record = codec.decode(whole.kind, whole.payload)
    if not isinstance(record, Telemetry):
        raise UnsplittableError(f"{whole.kind.value} of {too_large}")
    parts = _parts(whole, record.readings, limit_bytes)
    if parts is None:
        raise UnsplittableError(
            f"{whole.kind.value} of {too_large}: one reading alone is too large"
        )
    return tuple(_sealing(part) for part in parts)


def _parts(
    whole: Envelope, readings: tuple[SensorValue, ...], limit_bytes: int
) -> list[Envelope] | None:
    """Halves of halves, until all fit; ``None`` if one reading does not."""
    _, payload = codec.encode(Telemetry(readings))
    part = replace(whole, epoch=_LARGEST, seq=_LARGEST, payload=payload)
    if len(envelope.encode(part)) <= limit_bytes:
        return [part]
    if len(readings) < 2:
        return None
    middle = len(readings) // 2
    front = _parts(whole, readings[:middle], limit_bytes)
    back = _parts(whole, readings[middle:], limit_bytes)
    return None if front is None or back is None else front + back


def _sealing(part: Envelope) -> Callable[[int, int], bytes]:
    return lambda epoch, seq: envelope.encode(replace(part, epoch=epoch, seq=seq))
