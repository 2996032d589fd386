"""Ratios of paired figures, with their interval; and how figures are shown."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from edgesweep.student import t_quantile


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of paired ratios, and the t interval of their logarithms."""

    n: int
    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g}; n = {self.n})"


def ratio(pairs: list[tuple[float | None, float | None]]) -> Ratio | None:
    """Of the pairs that both were measured; ``None`` below two."""
    logs = [math.log(a / b) for a, b in pairs if a is not None and b is not None and min(a, b) > 0]
    if len(logs) < 2:
        return None
    mean = statistics.fmean(logs)
    half = t_quantile(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(mean + x) for x in (-half, 0, half))
    return Ratio(len(logs), middle, low, high)


def quantile(values: list[float], p: float) -> float | None:
    """By rank; ``None`` of nothing."""
    return sorted(values)[round(p * (len(values) - 1))] if values else None


def spread(values: list[float | None]) -> str:
    """Median and range as a cell of a table."""
    known = [value for value in values if value is not None]
    if not known:
        return "not told"
    low, middle, high = min(known), statistics.median(known), max(known)
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
