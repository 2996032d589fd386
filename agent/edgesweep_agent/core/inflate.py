"""Content codings undone after the fact, so that each piece keeps its instant."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Piece = tuple[int, bytes]

_GZIP = 16 + zlib.MAX_WBITS
MOST_BYTES = 256 << 20
"""No answer is this long; a few hundred KiB of zeros would be, and fill the device's memory."""
_NO_CODING = frozenset({"", "identity", "none", "utf-8"})
"""What servers name without coding anything; the last two by mistake."""
_MAGIC = b"\x1f"


class CodingError(ValueError):
    """The body is not in the coding that its header names, or in one we cannot undo."""


def decoded(
    pieces: Iterable[Piece], coding: str, *, most_bytes: int = MOST_BYTES
) -> Iterator[Piece]:
    """The pieces with their coding undone; a piece that only fills the decoder yields nothing.

    We ask for ``identity``, but proxies compress regardless.

    Args:
        pieces: Instants with the bytes received.
        coding: Value of the ``Content-Encoding`` header.
        most_bytes: What a compressed body may come to.

    Raises:
        CodingError: For an unknown coding, bytes that contradict it, or too many.
    """
    names = [name for part in coding.split(",") if (name := part.strip().lower()) not in _NO_CODING]
    if not names:
        return iter(pieces)
    if names in (["gzip"], ["x-gzip"]):
        return _inflated(pieces, _GZIP, most_bytes)
    if names == ["deflate"]:
        return _deflated(pieces, most_bytes)
    raise CodingError(f"body in content coding {', '.join(names)!r}")


def _deflated(pieces: Iterable[Piece], most_bytes: int) -> Iterator[Piece]:
    """RFC 9110 8.4.1.2 means zlib; some servers send raw deflate under that name."""
    kept = [piece for piece in pieces if piece[1]]
    head = b"".join(data for _, data in kept[:2])[:2]
    is_zlib = len(head) == 2 and head[0] & 0x0F == 8 and int.from_bytes(head, "big") % 31 == 0
    return _inflated(kept, zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS, most_bytes)


def _inflated(pieces: Iterable[Piece], wbits: int, most_bytes: int) -> Iterator[Piece]:
    left = most_bytes
    inflate = zlib.decompressobj(wbits)
    for t_ns, packed in pieces:
        data = packed
        while data:
            # Some servers compress each event by itself, one after the other.
            if inflate.eof:
                # What follows and is no gzip member is padding, as gzip(1) has it.
                if wbits == _GZIP and not data.startswith(_MAGIC):
                    return
                inflate = zlib.decompressobj(wbits)
            try:
                plain = inflate.decompress(data, left)
            except zlib.error as error:
                raise CodingError(f"body is not in its content coding: {error}") from error
            left -= len(plain)
            if not left:
                raise CodingError(f"body is over {most_bytes >> 20} MiB when decoded")
            if plain:
                yield t_ns, plain
            data = inflate.unused_data
