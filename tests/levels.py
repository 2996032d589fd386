"""Levels as tests judge them: by what the test did, not by what else ran on the machine."""

from __future__ import annotations

MACHINE = frozenset({"foreign_load", "client_limited", "drifted", "swapping", "refault", "oom"})
"""Flags that a neighbour on the test's machine can earn a level."""
CAVEATS = frozenset({"cache_unproven", "stream_buffered"})


def flags_of(level: dict) -> list[str]:
    """The flags of a level of a run's JSON that its engine and its client earned."""
    return [name for name in level["flags"] if name not in MACHINE | CAVEATS]


def status_of(level: dict) -> str:
    """Its status, were it not for the machine."""
    if level["status"] == "flagged" and not flags_of(level):
        return "valid"
    return level["status"]
