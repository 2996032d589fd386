"""Both clocks of the kernel at one instant."""

from __future__ import annotations

import time

from edgesweep_agent.core.steadiness import ClockLook

_TRIES = 3


def both_clocks() -> ClockLook:
    """The wall clock between two looks at the monotonic one; the closest pair of a few.

    On a busy core this process may be put aside between two looks, which would pass for a step.
    """
    return min((_look() for _ in range(_TRIES)), key=lambda one: one[0])[1]


def _look() -> tuple[int, ClockLook]:
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    width_ns = time.monotonic_ns() - before_ns
    return width_ns, ClockLook(before_ns + width_ns // 2, wall_ns)
