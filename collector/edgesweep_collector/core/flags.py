"""The caveats that an answer carries as words of a fixed vocabulary."""

from __future__ import annotations

from enum import Enum


class Flag(str, Enum):
    """Why an answer is narrower or weaker than it may look; in the order they are reported."""

    SINGLE_DEVICE = "SINGLE_DEVICE"
    """One device: the answer is about this unit, not about its hardware class."""
    NO_REPEATS = "NO_REPEATS"
    """One value per cell on one device: no interval."""
    POOLED_REPEATS = "POOLED_REPEATS"
    """The interval rests on repeats of one device, which may share a session: it can be short."""
    LOW_SESSIONS = "LOW_SESSIONS"
    """Fewer than three sessions: they were pooled as repeats."""
    LOW_DEVICES = "LOW_DEVICES"
    """Two units: the interval is honest and mostly too wide to use."""
    PARTIAL_RANGE = "PARTIAL_RANGE"
    """Some units do not cover the common range and were set aside."""
    COARSE_BRACKET = "COARSE_BRACKET"
    """The levels around the crossover are more than one doubling apart."""
    GAP_IN_BRACKET = "GAP_IN_BRACKET"
    """A level failed where the lead changes hands: no point is given."""
    TIE_INSIDE = "TIE_INSIDE"
    """Between levels of a proven lead the engines tie at least once."""
    UNRESOLVED_INSIDE = "UNRESOLVED_INSIDE"
    """Between levels of a proven lead at least one level is unresolved."""
    VALUES_DROPPED = "VALUES_DROPPED"
    """Values that were not above zero were left out."""
