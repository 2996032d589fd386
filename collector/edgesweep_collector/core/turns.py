"""A bounded queue in which senders take turns, so that none of them can keep the others waiting."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

T = TypeVar("T")


class Turns(Generic[T]):
    """One line of items a sender; they are served in turn.

    Args:
        line: Most items of one sender that wait.
        size: Most that all of them may come to together, in whatever ``put`` counts; one item of
            each sender is welcome beyond it.
        share: Most items of one sender in one serving.
    """

    def __init__(self, line: int, size: int, share: int) -> None:
        self._line = line
        self._size = size
        self._share = share
        self._lines: dict[Hashable, deque[tuple[T, int]]] = {}
        self._taken_up = 0

    def has_room(self, sender: Hashable) -> bool:
        """Whether a sender may put another item in."""
        line = self._lines.get(sender)
        return line is None or (len(line) < self._line and self._taken_up < self._size)

    def put(self, sender: Hashable, item: T, size: int) -> None:
        """Put an item at the end of its sender's line, room or not."""
        self._lines.setdefault(sender, deque()).append((item, size))
        self._taken_up += size

    def take(self, most: int) -> list[T]:
        """Up to ``most`` items, one of each sender in turn; each sender's in their order."""
        taken: list[T] = []
        served: dict[Hashable, int] = {}
        waiting = deque(self._lines)
        while waiting and len(taken) < most:
            sender = waiting.popleft()
            line = self._lines.pop(sender)
            item, size = line.popleft()
            taken.append(item)
            self._taken_up -= size
            served[sender] = served.get(sender, 0) + 1
            if line:
                # To the end: who was served last is first to wait next time.
                self._lines[sender] = line
                if served[sender] < self._share:
                    waiting.append(sender)
        return taken
