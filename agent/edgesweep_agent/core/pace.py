"""What the requests say in which a level was cut: how slow the server is, or that it hangs."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep.records import Sample

    from .exchange import Exchange

_SECOND_NS = 1_000_000_000
ODD_MIN_S, ODD_FACTOR = 2.0, 2.0
"""From when on a silence is told: seconds, and times what an answer's beginning should take."""
HUNG_MIN_S, HUNG_FACTOR = 20.0, 4.0
"""From when on it is a failure, likewise: a prompt may be long, a device slow, but not so slow."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a request goes.

    Attributes:
        first_s: Until its first token.
        token_s: From one token to the next.
    """

    first_s: float
    token_s: float

    def request_s(self, tokens: int) -> float:
        """What a request of so many tokens takes."""
        return self.first_s + max(0, tokens - 1) * self.token_s


def pace_of(samples: Sequence[Sample]) -> Pace | None:
    """The mean pace of requests that had a token, whole or cut; ``None`` where none had."""
    found = [pace for sample in samples if (pace := _pace(sample)) is not None]
    if not found:
        return None
    return Pace(fmean(one.first_s for one in found), fmean(one.token_s for one in found))


def share_done(sample: Sample, tokens: int) -> float:
    """Which part of a cut request had been done, of the time that it takes; 0 without a token."""
    pace = _pace(sample)
    return 0.0 if pace is None else min(1.0, _seconds(sample) / pace.request_s(tokens))


def silence_s(exchanges: Sequence[Exchange], began_ns: int, ended_ns: int) -> float:
    """For how long nothing at all had been heard when a level was cut.

    Args:
        exchanges: All that are known; those under way have ended as ``cancelled``.
        began_ns: The level.
        ended_ns: The level.
    """
    under_way = [one for one in exchanges if one.ending == "cancelled"]
    if exchanges and not under_way:
        return 0.0
    ended_ns = max((one.t_end_ns for one in under_way), default=ended_ns)
    sent = [one.t_send_ns for one in under_way if one.t_send_ns is not None]
    heard = [began_ns, *map(_heard_ns, exchanges), min(sent, default=began_ns)]
    return max(0.0, (ended_ns - max(heard)) / _SECOND_NS)


def is_odd(silent_s: float, beginning_s: float) -> bool:
    """Whether a silence is worth a word; arguments as of :func:`is_hung`."""
    return silent_s >= max(ODD_MIN_S, ODD_FACTOR * beginning_s)


def is_hung(silent_s: float, beginning_s: float) -> bool:
    """Whether a silence is none of a slow server's.

    Args:
        silent_s: Its length.
        beginning_s: What an answer's first token should take at this level.
    """
    return silent_s >= max(HUNG_MIN_S, HUNG_FACTOR * beginning_s)


_UNHEARD = frozenset({"cancelled", "timeout", "refused"})
"""Endings that are no word of the server's."""


def _heard_ns(exchange: Exchange) -> int:
    if exchange.ending not in _UNHEARD:
        return exchange.t_end_ns
    last = exchange.pieces[-1][0] if exchange.pieces else 0
    return max(last, exchange.t_headers_ns or 0)


def _seconds(sample: Sample) -> float:
    return (sample.t_end_ns - sample.t_send_ns) / _SECOND_NS


def _pace(sample: Sample) -> Pace | None:
    if not sample.text_ns:
        return None
    first, last = sample.text_ns[0] / _SECOND_NS, sample.text_ns[-1] / _SECOND_NS
    gaps = max(sample.output_tokens or 0, len(sample.text_ns)) - 1
    # The second token of a request that was cut after its first has taken so long at least.
    token_s = (last - first) / gaps if gaps > 0 else _seconds(sample) - first
    return Pace(first, token_s)
