"""A database file that SQLite does not open, or must not: its pages, with its log over them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from edgesweep_agent.core import pages, wal
from edgesweep_agent.core.spooled import epoch_check, mark_check, parts_of, salvaged

from .database import PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from edgesweep_agent.core.spooled import Frozen

_OLD_PAGE_BYTES = 4096
"""Of the files of 0.1."""
_LOOK_BYTES = 512 * 1024
"""So much of a file without a header is looked at to find the size of its pages."""


class Image:
    """The pages of a database that nobody has open.

    Attributes:
        count: How many pages there are.
        log: What its log is; ``None`` without one.

    Raises:
        OSError: the file is not there.
    """

    def __init__(self, path: Path) -> None:
        self._log = log_of(path)
        self._handle = os.open(path, os.O_RDONLY)
        header = self._read(0, 100) or b""
        self._size = os.fstat(self._handle).st_size
        self._open(pages.page_bytes_of(header) or PAGE_BYTES)
        if pages.page_bytes_of(header) is None and not self._yield(_LOOK_BYTES):
            self._open(_OLD_PAGE_BYTES)

    def _open(self, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self.log = wal.parsed(self._log, page_bytes)
        committed = self.log.committed if self.log else {}
        self.count = max(-(-self._size // page_bytes), max(committed, default=0))
        self._free = pages.free_pages(self.page)

    def page(self, number: int) -> bytes | None:
        """A page as SQLite would have read it; zeros for what a cut file lacks of it."""
        at = self.log.committed.get(number) if self.log else None
        if at is not None:
            return self._log[at : at + self._page_bytes]
        raw = self._read((number - 1) * self._page_bytes, self._page_bytes)
        return raw.ljust(self._page_bytes, b"\0") if raw else None

    def rows(self, number: int) -> list[Frozen]:
        """The rows of a page that is in use."""
        page = None if number in self._free else self.page(number)
        return [] if page is None else list(_rows(page, number, self.page))

    def tail(self) -> list[Frozen]:
        """The rows that a damaged log has behind what SQLite reads of it."""
        frames = self.log.tail if self.log and self.log.damaged else ()
        tail = dict(frames)

        def page(number: int) -> bytes | None:
            at = tail.get(number)
            return self.page(number) if at is None else self._log[at : at + self._page_bytes]

        return [
            row
            for number, at in frames
            for row in _rows(self._log[at : at + self._page_bytes], number, page)
        ]

    def delivered(self) -> frozenset[tuple[int, int]]:
        """The (epoch, seq) of results that are here although they were delivered."""
        epochs: dict[int, int] = {}
        marks: list[tuple[int, int]] = []
        for number in range(1, self.count + 1):
            page = None if number in self._free else self.page(number)
            for rowid, columns in pages.rows_of(page, number, self.page) if page else ():
                match columns:
                    case [None, int(epoch), int(check)] if check == epoch_check(rowid, epoch):
                        epochs[rowid] = epoch
                    case [None, int(check)]:
                        marks.append((rowid, check))
        keys = {
            (epochs.get(n, 0), seq): check for row, check in marks for n, seq in [parts_of(row)]
        }
        return frozenset(key for key, check in keys.items() if check == mark_check(*key))

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _yield(self, size: int) -> int:
        last = min(self.count, size // self._page_bytes)
        return sum(len(self.rows(number)) for number in range(1, last + 1))

    def _read(self, at: int, size: int) -> bytes | None:
        # A bad block of the disk is a page that is not there.
        with suppress(OSError):
            return os.pread(self._handle, size, at)
        return None


def log_of(path: Path) -> bytes:
    """The log beside a database; nothing if there is none."""
    try:
        return path.with_name(path.name + "-wal").read_bytes()
    except OSError:
        return b""


def _rows(page: bytes, number: int, others: pages.Pages) -> Iterator[Frozen]:
    for _, columns in pages.rows_of(page, number, others):
        row = salvaged(columns)
        if row is not None:
            yield row
