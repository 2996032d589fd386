"""When a box under load is as warm as it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW_S = 300.0
WITHIN_C = 1.0
"""Less than 1 degC of change in 5 minutes counts as standing still."""
MOST_S = 3600.0
"""A box that still warms after an hour is measured all the same, and said to."""


@dataclass(frozen=True, slots=True)
class Soak:
    """How far a soak is.

    Attributes:
        done: No further load is needed.
        text: What it came to, for the record.
    """

    done: bool
    text: str


def soak_state(course: Sequence[tuple[float, float | None]]) -> Soak:
    """Judge the temperatures seen so far.

    Args:
        course: Seconds since the load began, and the hottest zone then in degC (``None`` where
            no sensor says), ascending.
    """
    if not course:
        return Soak(done=False, text="")
    now = course[-1][0]
    known = [(at, value) for at, value in course if value is not None]
    if not known:
        return Soak(now >= WINDOW_S, f"no temperature sensor: {now:.0f} s of load")
    recent = [value for at, value in known if at >= now - WINDOW_S]
    spread = max(recent) - min(recent)
    text = f"{spread:.1f} degC in {min(now, WINDOW_S):.0f} s, after {now:.0f} s of load"
    stands = known[0][0] <= now - WINDOW_S and spread < WITHIN_C
    return Soak(stands or now >= MOST_S, text)
