"""Draws that depend on words alone: one seed gives the same numbers on every machine."""

from __future__ import annotations

import random
import uuid


def dice(*words: object) -> random.Random:
    """A source of numbers of its own for these words."""
    return random.Random("/".join(map(str, words)))  # noqa: S311 - scatter, not keys


def scatter(sd: float, *words: object) -> float:
    """A number with mean 0 and that standard deviation, cut at three of them."""
    return max(-3 * sd, min(3 * sd, dice(*words).gauss(0.0, sd)))


def uuid7(unix_ms: int, *words: object) -> str:
    """A version-7 UUID (RFC 9562, 5.7) of a wall time, its random part drawn."""
    value = (unix_ms & (2**48 - 1)) << 80 | dice("uuid", *words).getrandbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def uuid4(*words: object) -> str:
    """A version-4 UUID (RFC 9562, 5.4), drawn."""
    return str(uuid.UUID(int=dice("uuid", *words).getrandbits(128), version=4))
