"""The events whose attributes a collector reckons with: their names, written and read in one place.

Any other event is for people alone. Attributes are texts; what is added later is ignored by
who does not know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .envelope import WireError
from .records import Event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLOCK_SET = "clock_set"
RECORDS_DROPPED = "records_dropped"
SPOOL_QUARANTINED = "spool_quarantined"
RESEND_UNAVAILABLE = "resend_unavailable"

Ranges = tuple[tuple[int, int], ...]
"""(first, last) sequence numbers, both inclusive, ascending."""

_MAX_SEQ = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Dropped:
    """Records of one epoch that will never be delivered, and why.

    Attributes:
        epoch: Of the spool that had them.
        ranges: Their numbers. Empty for records that were dropped before they had any.
        by_kind: How many of each kind; empty where that is not known.
        reason: ``full``, ``damaged``, ``split`` (other numbers carry the same readings), ...
    """

    epoch: int
    ranges: Ranges
    by_kind: Mapping[str, int]
    reason: str


def clock_set(offset_ns: int, stepped_ns: int) -> Event:
    """The wall clock became trustworthy, or was stepped.

    Args:
        offset_ns: Wall time less monotonic time of this boot, in ns, as it is from now on.
        stepped_ns: By how much it was changed.
    """
    seconds = stepped_ns / 1e9
    return Event(
        CLOCK_SET,
        f"the wall clock is synchronised; it was set by {seconds:+.3f} s",
        {"offset_ns": str(offset_ns), "stepped_ns": str(stepped_ns)},
    )


def clock_offset_ns(event: Event) -> int:
    """The ``offset_ns`` of a :func:`clock_set`.

    Raises:
        WireError: it has none.
    """
    return _integer(event, "offset_ns")


def records_dropped(dropped: Dropped) -> Event:
    """Tells a collector which gaps are none that it has to wait for."""
    count = sum(dropped.by_kind.values()) or sum(b - a + 1 for a, b in dropped.ranges)
    kinds = {f"n_{kind}": str(n) for kind, n in sorted(dropped.by_kind.items())}
    return Event(
        RECORDS_DROPPED,
        f"{count} records were dropped: {dropped.reason}",
        {
            "epoch": f"{dropped.epoch:016x}",
            "ranges": ranges_text(dropped.ranges),
            "reason": dropped.reason,
            **kinds,
        },
    )


def dropped_records(event: Event) -> Dropped:
    """What a :func:`records_dropped` tells; a :data:`RESEND_UNAVAILABLE` has the same form.

    Raises:
        WireError: it does not tell it.
    """
    try:
        epoch = int(event.attributes["epoch"], 16)
        ranges = parsed_ranges(event.attributes["ranges"])
        kinds = {
            name.removeprefix("n_"): int(value)
            for name, value in event.attributes.items()
            if name.startswith("n_")
        }
    except (KeyError, ValueError) as error:
        raise WireError(f"event {event.name}: {error}") from error
    return Dropped(epoch, ranges, kinds, event.attributes.get("reason", ""))


def resend_unavailable(epoch: int, ranges: Ranges) -> Event:
    """The answer to a request for records that this device has no longer."""
    return Event(
        RESEND_UNAVAILABLE,
        "records that were asked for again are not here any more",
        {"epoch": f"{epoch:016x}", "ranges": ranges_text(ranges), "reason": "delivered before"},
    )


def ranges_text(ranges: Sequence[tuple[int, int]]) -> str:
    """``1-5,9``."""
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def parsed_ranges(text: str) -> Ranges:
    """The ranges in a text of :func:`ranges_text`.

    Raises:
        ValueError: it is no such text, or a range is turned round or beyond 63 bits.
    """
    ranges = []
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        pair = (int(first), int(last if dash else first))
        if not 0 < pair[0] <= pair[1] <= _MAX_SEQ:
            raise ValueError(f"{part!r} is no range of sequence numbers")
        ranges.append(pair)
    return tuple(ranges)


def _integer(event: Event, name: str) -> int:
    try:
        return int(event.attributes[name])
    except (KeyError, ValueError) as error:
        raise WireError(f"event {event.name} has no {name}") from error
