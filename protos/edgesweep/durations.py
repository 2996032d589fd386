"""Durations, and other numbers, as people write them."""

from __future__ import annotations

import math
import re

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.ASCII)
MOST_S = 36_500 * 86_400.0
"""A hundred years: no deadline that is reckoned from a clock overflows."""


def seconds(text: str) -> float:
    """Seconds of ``120``, ``120s``, ``2m``, ``1.5h`` or ``90d``.

    Raises:
        ValueError: anything else, nothing to wait for, or more than a hundred years.
    """
    length_s = seconds_or_zero(text)
    if not length_s:
        raise ValueError(f"{text!r} is no duration: no time at all; write 90s, 15m, 2h or 30d")
    return length_s


def seconds_or_zero(text: str) -> float:
    """As ``seconds``, and ``0`` where no time at all has a meaning.

    Raises:
        ValueError: anything else, or more than a hundred years.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration: write 90s, 15m, 2h or 30d")
    length_s = float(match[1]) * _UNITS[match[2]]
    if length_s > MOST_S:
        raise ValueError(f"{text!r} is more than a hundred years: write 90s, 15m, 2h or 30d")
    return length_s


def finite(text: str) -> float:
    """A number that is one: no ``inf`` and no ``nan``, which ``float`` takes.

    Raises:
        ValueError: anything else.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is no finite number: write 0.5 or 20")
    return number


def duration_text(length_s: float) -> str:
    """A length of time for people: ``40 s``, ``6 min``, ``2.5 h``."""
    if length_s < 90:
        return f"{length_s:.0f} s"
    return f"{length_s / 60:.0f} min" if length_s < 90 * 60 else f"{length_s / 3600:.1f} h"
