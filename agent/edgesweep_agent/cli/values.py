"""What the options of this command line take, beside what both have."""

from __future__ import annotations

from edgesweep.durations import MOST_S, finite, seconds, seconds_or_zero
from edgesweep_common.values import complaining, path

__all__ = ["duration_text", "offset_s", "path", "rate_per_s", "share", "wait_s"]


def _duration_text(text: str) -> str:
    seconds(text)
    return text


def _share(text: str) -> float:
    number = finite(text)
    if not 0 < number < 1:
        raise ValueError(f"{text!r} is no share: write a number above 0 and below 1, such as 0.02")
    return number


def _rate(text: str) -> float:
    number = finite(text)
    if number <= 0:
        raise ValueError(f"{text!r} is no rate: write a number above 0, such as 0.5")
    return number


def _offset_s(text: str) -> float:
    number = finite(text)
    if abs(number) > MOST_S:
        raise ValueError(f"{text!r} is more than a hundred years: write seconds, such as -3600")
    return number


wait_s = complaining(seconds_or_zero)
duration_text = complaining(_duration_text)
share = complaining(_share)
rate_per_s = complaining(_rate)
offset_s = complaining(_offset_s)
