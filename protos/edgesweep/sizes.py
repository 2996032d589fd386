"""Sizes of memory as people write and read them."""

from __future__ import annotations

import re

_UNITS = {
    "": 1,
    "b": 1,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
"""A bare letter is binary, as in ``llama-server``'s and systemd's options."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_MOST = 2**60


def size_bytes(text: str) -> int:
    """Bytes of ``2GiB`` (binary), ``512MB`` (decimal), ``1.5G`` (binary) or ``1048576``.

    Raises:
        ValueError: anything else.
    """
    match = _SIZE.fullmatch(text.strip().lower())
    unit = _UNITS.get(match[2]) if match else None
    if match is None or unit is None or float(match[1]) * unit > _MOST:
        raise ValueError(f"{text!r} is no size: write 2GiB, 512MB or 1.5G")
    return round(float(match[1]) * unit)


def size_text(count: int) -> str:
    """Three digits in binary units: ``98.2 MiB``."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1000:
            break
        value, unit = value / 1024, larger
    digits = 0 if unit == "B" or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {unit}"
