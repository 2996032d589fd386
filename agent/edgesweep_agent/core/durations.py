"""Durations as people write them."""

from __future__ import annotations

import re

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")


def seconds(text: str) -> float:
    """Seconds of ``120``, ``120s``, ``2m`` or ``1.5h``.

    Raises:
        ValueError: anything else, or nothing to wait for.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is no duration: write 90s, 15m or 2h")
    return float(match[1]) * _UNITS[match[2]]
