"""An event loop's selector that reads connections itself, so that a token costs little.

What asyncio does for each read (a handle, its context, a turn of the loop) costs several times the
read itself, on the cores that the engine under test needs. Here a read is taken with its instant
as soon as ``epoll`` tells of it, and the loop turns only when somebody has something to do.
"""

from __future__ import annotations

import os
import select
import time
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, SelectorKey
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

_READABLE, _WRITABLE = select.EPOLLIN, select.EPOLLOUT
_READ_BYTES = 65536
_LAST_CHUNK = b"\r\n\r\n"
"""How a chunked message ends, and hardly an event within it."""
_KEPT = 128
"""Reads that may wait for their parser: parsing them all takes no longer than a tenth of a
millisecond, which is what another connection's read may have to wait."""
_COARSE_S = 0.001
"""``epoll_wait`` counts in these."""


class Reader(Protocol):
    """Takes what its connection brings.

    Attributes:
        shelf: Where reads may be put with their instants, for later, if they are not what may be
            the end of a message; ``None`` while each of them has to be seen.
    """

    shelf: list[tuple[int, bytes]] | None

    def receive(self, t_ns: int, data: bytes) -> bool:
        """Bytes came in; whether the loop must turn."""

    def broken(self, t_ns: int, error: OSError) -> None:
        """Reading failed; asyncio is told as well, and finds a connection that is closed."""


class ReadingSelector(BaseSelector):
    """A selector over ``epoll`` with a second kind of registration: direct readers.

    A descriptor that the loop watches (for a transport, say) may have a direct reader on top for
    a while. What it brings then goes there and the transport sees nothing of it, but for the end
    of the stream, which is left to the transport.

    Attributes:
        exact_timers: Timers to a tenth of a millisecond, for an additional call each; ``epoll``
            alone is up to a whole one late.
    """

    def __init__(self) -> None:
        self.exact_timers = False
        self._epoll = select.epoll()
        self._keys: dict[int, SelectorKey] = {}
        self._readers: dict[int, Reader] = {}

    def divert(self, fd: int, reader: Reader) -> None:
        """From now on, what comes on this descriptor goes to the reader."""
        self._readers[fd] = reader

    def restore(self, fd: int) -> None:
        """What comes goes to the loop again; without effect if it does already."""
        self._readers.pop(fd, None)

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """Watches a descriptor.

        Raises:
            KeyError: It is watched already.
        """
        fd = _fd(fileobj)
        if fd in self._keys:
            raise KeyError(f"descriptor {fd} is registered already")
        self._epoll.register(fd, _mask(events))
        key = self._keys[fd] = SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        """Watches a descriptor no more.

        Raises:
            KeyError: It is not watched.
        """
        key = self._keys.pop(_fd(fileobj))
        try:
            self._epoll.unregister(key.fd)
        except OSError:
            # Closing it has done this already.
            return key
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """Watches for something else.

        Raises:
            KeyError: It is not watched.
        """
        fd = _fd(fileobj)
        if events != self._keys[fd].events:
            self._epoll.modify(fd, _mask(events))
        key = self._keys[fd] = SelectorKey(fileobj, fd, events, data)
        return key

    def get_map(self) -> Mapping[Any, SelectorKey]:
        """The watched descriptors by number."""
        return self._keys

    def close(self) -> None:
        """Ends it."""
        self._epoll.close()
        self._keys.clear()
        self._readers.clear()

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """What the loop must see to; returns early, and with nothing, if a reader asks for it."""
        until_s = None if timeout is None else time.monotonic() + timeout
        left_s = timeout
        # Looked up once: this runs for every token, and mostly with cold caches.
        poll = self._exact_poll if self.exact_timers else self._epoll.poll
        readers, read, clock = self._readers, os.read, time.monotonic_ns
        while True:
            ready: list[tuple[SelectorKey, int]] = []
            wanted = False
            for fd, event in poll(left_s):
                reader = readers.get(fd)
                if reader is None or not event & _READABLE:
                    self._leave(fd, event, ready)
                    continue
                try:
                    data = read(fd, _READ_BYTES)
                except OSError as error:
                    self._failed(fd, event, error, ready)
                    continue
                t_ns, shelf = clock(), reader.shelf
                # What nearly every token takes is done here: a call would cost as much again.
                waits = len(data) > 3 and data[-4:] != _LAST_CHUNK
                if shelf is not None and waits and len(shelf) < _KEPT:
                    shelf.append((t_ns, data))
                elif data:
                    # Whatever else was told of it will be told again.
                    wanted |= reader.receive(t_ns, data)
                else:
                    self._leave(fd, event, ready)
            if ready or wanted:
                return ready
            if until_s is not None:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    return ready

    def _exact_poll(self, timeout_s: float | None) -> list[tuple[int, int]]:
        if timeout_s is None or timeout_s <= 0:
            return self._epoll.poll(timeout_s)
        if timeout_s > _COARSE_S:
            # Rounded up to a whole millisecond, it comes back up to one early.
            return self._epoll.poll(timeout_s - _COARSE_S)
        readable, _, _ = select.select([self._epoll], [], [], timeout_s)
        return self._epoll.poll(0) if readable else []

    def _failed(
        self, fd: int, event: int, error: OSError, ready: list[tuple[SelectorKey, int]]
    ) -> None:
        if not isinstance(error, BlockingIOError):
            self._readers[fd].broken(time.monotonic_ns(), error)
            self._leave(fd, event, ready)

    def _leave(self, fd: int, event: int, ready: list[tuple[SelectorKey, int]]) -> None:
        key = self._keys.get(fd)
        if key is not None and (events := _events(event) & key.events):
            ready.append((key, events))


def _fd(fileobj: Any) -> int:
    return fileobj if isinstance(fileobj, int) else int(fileobj.fileno())


def _mask(events: int) -> int:
    return (_READABLE if events & EVENT_READ else 0) | (_WRITABLE if events & EVENT_WRITE else 0)


def _events(event: int) -> int:
    """Errors and hang-ups count as both: whoever reads or writes next is told."""
    return (EVENT_READ if event & ~_WRITABLE else 0) | (EVENT_WRITE if event & ~_READABLE else 0)
