"""The one definition of a quantile, on the device and at the collector.

A quantile is printed only when enough requests stand behind it. The floors are those of
MLCommons Endpoints at 99 % confidence (about 6.64 / (1 - p) for the upper ones).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .records import Distribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FLOORS: dict[float, int] = {0.50: 11, 0.90: 64, 0.95: 130, 0.99: 662}
"""Requests needed before a quantile may be stated."""


def quantile(ordered: Sequence[float], p: float) -> float | None:
    """The p-quantile of ascending values by linear interpolation (Hyndman & Fan 1996, type 7).

    Returns:
        ``None`` when there are fewer values than the quantile's floor.
    """
    if len(ordered) < FLOORS[p]:
        return None
    position = p * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def distribution(values: Iterable[float]) -> Distribution | None:
    """Exact statistics of finite values; ``None`` when there are none."""
    ordered = sorted(value for value in values if math.isfinite(value))
    if not ordered:
        return None
    return Distribution(
        n=len(ordered),
        mean=math.fsum(ordered) / len(ordered),
        min=ordered[0],
        max=ordered[-1],
        p50=quantile(ordered, 0.50),
        p90=quantile(ordered, 0.90),
        p95=quantile(ordered, 0.95),
        p99=quantile(ordered, 0.99),
    )
