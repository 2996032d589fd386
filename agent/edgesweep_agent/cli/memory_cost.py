"""What each additional simultaneous request cost in memory: measured beside reckoned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgesweep.sizes import size_text
from edgesweep_agent.core.verdict import theil_sen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgesweep.records import LevelResult

FEWEST_LEVELS = 4
"""A slope through fewer is a guess."""


def memory_lines(levels: Sequence[LevelResult]) -> Iterator[str]:
    """A line for each contender whose peak was measured at enough levels.

    An engine that reserves its cache at the start takes the same at every level: what grows then
    is what is beside the cache. Started anew for each level, it shows the whole cost.
    """
    by_contender: dict[str, list[LevelResult]] = {}
    for level in levels:
        if level.n_ok and "memory_peak_bytes" in level.values:
            by_contender.setdefault(level.contender.id, []).append(level)
    for found in by_contender.values():
        if len({level.concurrency for level in found}) >= FEWEST_LEVELS:
            yield _line(found)


def _line(levels: Sequence[LevelResult]) -> str:
    points = [(float(x.concurrency), x.values["memory_peak_bytes"]) for x in levels]
    slope = theil_sen(points) or 0.0
    reckoned = levels[0].values.get("bytes_per_request")
    beside = "" if reckoned is None else f", {size_text(round(reckoned))} reckoned at full context"
    anew = levels[0].contender.settings.get("policy") == "per_level"
    how = "the engine started anew for each" if anew else "its cache reserved from the start"
    return (
        f"{levels[0].contender.name}: {size_text(round(slope))} more memory for each additional "
        f"request ({how}){beside}"
    )
