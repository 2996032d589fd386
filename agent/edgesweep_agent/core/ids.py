"""Identifiers that sort by the time of their making."""

from __future__ import annotations

import uuid


def uuid7(unix_ms: int, random: bytes) -> str:
    """A version-7 UUID (RFC 9562, 5.7) of a wall time and ten random bytes."""
    value = (unix_ms & (2**48 - 1)) << 80 | int.from_bytes(random, "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))
