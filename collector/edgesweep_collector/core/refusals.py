"""When to say that a sender is refused: at once, then once in a while, however many there are."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

_MOST_SENDERS = 1024


@dataclass(slots=True)
class _Told:
    at_s: float = float("-inf")
    in_a_row: int = 0
    unsaid: int = 0


@dataclass(frozen=True, slots=True)
class Telling:
    """What is to be said of a sender: refusals in a row, and how many went unsaid since."""

    in_a_row: int
    unsaid: int


class Refusals:
    """Counts refusals of each sender until something of it is accepted.

    Args:
        every_s: Between two lines about one sender.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._senders: OrderedDict[Hashable, _Told] = OrderedDict()

    def refused(self, sender: Hashable, now_s: float) -> Telling | None:
        """Count one; what is to be said now, if anything is."""
        told = self._senders.pop(sender, None) or _Told()
        self._senders[sender] = told
        if len(self._senders) > _MOST_SENDERS:
            self._senders.popitem(last=False)
        told.in_a_row += 1
        if now_s - told.at_s < self._every_s:
            told.unsaid += 1
            return None
        telling = Telling(told.in_a_row, told.unsaid)
        told.at_s, told.unsaid = now_s, 0
        return telling

    def accepted(self, sender: Hashable) -> None:
        """Something of it was accepted: its refusals are in a row no longer."""
        told = self._senders.get(sender)
        if told is not None:
            told.in_a_row = 0

    def in_a_row(self, sender: Hashable) -> int:
        """How many it has had since something was accepted."""
        told = self._senders.get(sender)
        return 0 if told is None else told.in_a_row
