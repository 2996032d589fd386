"""Rows in the pages of an SQLite database that SQLite does not open any more.

Every leaf is read for itself, whatever has become of the tree above it. Nothing that is read
here is to be trusted: whoever takes a row checks it by what the row says of itself. Format:
sqlite.org/fileformat2.html, 1.5 and 2.1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Pages = Callable[[int], "bytes | None"]
"""Gives a page by its number, from 1; ``None`` if there is none or it cannot be read."""
Value = int | float | str | bytes | None

_MAGIC = b"SQLite format 3\0"
_LEAF = 0x0D
_MAX_ROW_BYTES = 1024 * 1024
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class _GarbageError(Exception):
    """They cannot be what they are taken for."""


def page_bytes_of(header: bytes) -> int | None:
    """The size of pages by the first 100 bytes of a database; ``None`` if they are damaged."""
    if header[:16] != _MAGIC:
        return None
    (size,) = struct.unpack_from(">H", header, 16)
    size = 65536 if size == 1 else size
    return size if 512 <= size <= 65536 and size & (size - 1) == 0 else None


def free_pages(pages: Pages) -> frozenset[int]:
    """The pages that are not in use, as far as their list can be read: their rows are old."""
    first = pages(1)
    if first is None or first[:16] != _MAGIC:
        return frozenset()
    (trunk,) = struct.unpack_from(">I", first, 32)
    found: set[int] = set()
    while trunk and trunk not in found and (page := pages(trunk)) is not None:
        found.add(trunk)
        trunk, count = struct.unpack_from(">II", page)
        count = min(count, len(page) // 4 - 2)
        found.update(struct.unpack_from(f">{count}I", page, 8))
    return frozenset(found)


def rows_of(page: bytes, number: int, pages: Pages) -> Iterator[tuple[int, list[Value]]]:
    """(rowid, columns) of what is in a page, if it is a leaf of a table."""
    start = 100 if number == 1 else 0
    if page[start] != _LEAF:
        return
    (cells,) = struct.unpack_from(">H", page, start + 3)
    cells = min(cells, (len(page) - start - 8) // 2)
    for (at,) in struct.iter_unpack(">H", page[start + 8 : start + 8 + 2 * cells]):
        try:
            rowid, payload = _cell(page, at, pages)
            yield rowid, _columns(payload)
        except (_GarbageError, IndexError, struct.error, UnicodeDecodeError):
            continue


def _cell(page: bytes, at: int, pages: Pages) -> tuple[int, bytes]:
    size, at = _varint(page, at)
    rowid, at = _varint(page, at)
    if size > _MAX_ROW_BYTES:
        raise _GarbageError
    local = _local_bytes(size, len(page))
    payload = bytearray(page[at : at + local])
    if size > local:
        (more,) = struct.unpack_from(">I", page, at + local)
        _follow(payload, size, more, pages)
    if len(payload) != size:
        raise _GarbageError
    return rowid - 2**64 if rowid >= 2**63 else rowid, bytes(payload)


def _local_bytes(size: int, usable: int) -> int:
    """How much of a row is in the leaf itself."""
    if size <= usable - 35:
        return size
    least = (usable - 12) * 32 // 255 - 23
    wanted = least + (size - least) % (usable - 4)
    return wanted if wanted <= usable - 35 else least


def _follow(payload: bytearray, size: int, number: int, pages: Pages) -> None:
    # A chain that leads in a circle ends with the size.
    while number and len(payload) < size:
        page = pages(number)
        if page is None:
            raise _GarbageError
        (number,) = struct.unpack_from(">I", page)
        payload += page[4 : 4 + size - len(payload)]


def _columns(payload: bytes) -> list[Value]:
    header, at = _varint(payload, 0)
    kinds = []
    while at < header:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    return values


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind in {0, 8, 9}:
        return (None if kind == 0 else kind - 8), at
    if kind == 7:
        return float(struct.unpack_from(">d", payload, at)[0]), at + 8
    size = _INTEGER_BYTES.get(kind, (kind - 12) // 2)
    raw = payload[at : at + size]
    if size < 0 or len(raw) < size:
        raise _GarbageError
    if kind in _INTEGER_BYTES:
        return int.from_bytes(raw, "big", signed=True), at + size
    return (raw.decode() if kind & 1 else raw), at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(8):
        byte = data[at + n]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    return value << 8 | data[at + 8], at + 9
