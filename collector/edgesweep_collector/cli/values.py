"""What the options of this command line take, beside what both have."""

from __future__ import annotations

from edgesweep.durations import finite, seconds, seconds_or_zero
from edgesweep_common.values import complaining, path

__all__ = ["duration_s", "interval_s", "path", "speed"]


def _speed(text: str) -> float:
    number = finite(text)
    if number < 0:
        raise ValueError(f"{text!r} is no speed: write 1, 60, or 0 for as fast as it goes")
    return number


duration_s = complaining(seconds)
interval_s = complaining(seconds_or_zero)
speed = complaining(_speed)
