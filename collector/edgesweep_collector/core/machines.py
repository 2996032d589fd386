"""Whether two boots of one device are two machines: an image that was cloned, identity and all.

One machine has one boot after the other. Two that speak under one id are told by either of

* lives that overlap by their own synchronised clocks, however late they are heard;
* births that take turns: each connects again, by its own growing counter, after the other did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# What a clock may be off although it is called synchronised.
_MARGIN_NS = 60 * 10**9


@dataclass(frozen=True, slots=True)
class Life:
    """One boot, as far as it was heard.

    Attributes:
        began_ns: Its beginning by its own synchronised clock; ``None`` while there was none.
        ended_ns: The last instant at which it was alive, by the same clock.
        connection: The highest connection counter of its births; 0 before the first.
        came_back: Whether it connected again right after another boot had.
    """

    began_ns: int | None = None
    ended_ns: int | None = None
    connection: int = 0
    came_back: bool = False

    def seen(self, wall_ns: int, mono_ns: int) -> Life:
        """With an instant of its synchronised clock and its uptime then."""
        began_ns = wall_ns - mono_ns
        return replace(
            self,
            began_ns=began_ns if self.began_ns is None else min(self.began_ns, began_ns),
            ended_ns=wall_ns if self.ended_ns is None else max(self.ended_ns, wall_ns),
        )

    def born(self, connection: int, *, after_another: bool) -> Life:
        """With a birth; whether the birth before it was that of another boot."""
        back = after_another and 0 < self.connection < connection
        return replace(
            self,
            connection=max(self.connection, connection),
            came_back=self.came_back or back,
        )


def are_two(one: Life, other: Life) -> bool:
    """Whether two boots under one id cannot be of one machine."""
    return (one.came_back and other.came_back) or _overlap(one, other)


def _overlap(one: Life, other: Life) -> bool:
    if one.began_ns is None or one.ended_ns is None:
        return False
    if other.began_ns is None or other.ended_ns is None:
        return False
    together_ns = min(one.ended_ns, other.ended_ns) - max(one.began_ns, other.began_ns)
    return together_ns > _MARGIN_NS
