"""SQLite's write-ahead log read without SQLite: what of it counts, and whether an end is missing.

SQLite reads a log up to the first frame whose checksum is wrong and takes that for its end, as
it is after a crash. So a damaged byte silently undoes everything behind it, and the numbers of
records that were undone would be given out again. Format: sqlite.org/fileformat2.html, 4.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
"""The lowest bit says whether checksums are of big-endian words."""
_MASK = 0xFFFFFFFF

Sums = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Wal:
    """A write-ahead log.

    Attributes:
        page_bytes: The size of its pages.
        committed: Where in the log the newest image of a page begins, by the page's number.
        tail: (page number, where it begins) of frames behind what SQLite reads, which were
            written by the same generation of the log.
        damaged: A transaction that had ended is in the tail: more than a crash of the writer
            leaves behind.
    """

    page_bytes: int
    committed: dict[int, int] = field(default_factory=dict)
    tail: tuple[tuple[int, int], ...] = ()
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class _Frame:
    page: int
    commits: bool
    salts: Sums
    sums: Sums
    at: int


def parsed(log: bytes, page_bytes: int) -> Wal | None:
    """What is in a log; ``None`` in one that is empty.

    Args:
        log: The whole file.
        page_bytes: The size of pages, if the header of the log is damaged.
    """
    if len(log) <= _HEADER.size:
        return None
    magic, _version, size, _sequence, *rest = _HEADER.unpack_from(log)
    salts, sums = (rest[0], rest[1]), (rest[2], rest[3])
    words = ">" if magic & 1 else "<"
    if magic & ~1 != _MAGIC or _summed(log[:24], (0, 0), words) != sums:
        return _headless(log, page_bytes)
    frames = list(_frames(log, size))
    good = _good(log, frames, size, salts, sums, words)
    ends = [number for number, frame in enumerate(frames[:good], 1) if frame.commits]
    read = ends[-1] if ends else 0
    committed = {frame.page: frame.at for frame in frames[:read]}
    ours = [one for one in frames[read:] if _related(one.salts, salts)]
    # Frames of a transaction that was undone, or was not finished, have no end.
    damaged = any(frame.commits for frame in ours)
    return Wal(size, committed, tuple((one.page, one.at) for one in ours), damaged)


def _headless(log: bytes, page_bytes: int) -> Wal:
    """Without its header a log does not count at all; the first frame says which are its own."""
    frames = list(_frames(log, page_bytes))
    ours = [one for one in frames if _related(one.salts, frames[0].salts)]
    return Wal(page_bytes, {}, tuple((one.page, one.at) for one in ours), damaged=bool(ours))


def _frames(log: bytes, page_bytes: int) -> Iterator[_Frame]:
    step = _FRAME.size + page_bytes
    for at in range(_HEADER.size, len(log) - step + 1, step):
        page, commit, salt_1, salt_2, sum_1, sum_2 = _FRAME.unpack_from(log, at)
        yield _Frame(page, commit != 0, (salt_1, salt_2), (sum_1, sum_2), at + _FRAME.size)


def _good(
    log: bytes, frames: list[_Frame], page_bytes: int, salts: Sums, sums: Sums, words: str
) -> int:
    """How many frames SQLite takes to be whole."""
    for number, frame in enumerate(frames):
        if frame.salts != salts:
            return number
        head = frame.at - _FRAME.size
        sums = _summed(log[head : head + 8], sums, words)
        sums = _summed(log[frame.at : frame.at + page_bytes], sums, words)
        if sums != frame.sums:
            return number
    return len(frames)


def _related(salts: Sums, ours: Sums) -> bool:
    """Of the same generation, or half of it: the salts of another one differ in both."""
    return salts[0] == ours[0] or salts[1] == ours[1]


def _summed(data: bytes, sums: Sums, words: str) -> Sums:
    first, second = sums
    for one, other in struct.iter_unpack(words + "II", data):
        first = (first + one + second) & _MASK
        second = (second + other + first) & _MASK
    return first, second
