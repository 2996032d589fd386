"""Event streams, read incrementally: bytes in, events out.

The grammar is that of the WHATWG HTML standard, section 9.2.6 "Interpreting an event stream",
with two departures that real engines ask for: what follows the last line end is not thrown away
at the end of the stream (``[DONE]`` may come bare, darshi1337/apogee#139), and errors are heard
that the grammar would drop: a field named ``error`` (ggml-org/llama.cpp#16104), a bare line of
JSON that says so, and an ``error`` event without data.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE_END = re.compile(rb"\r\n|\r|\n")
_PLAIN_START = b"data: "
_PLAIN_END = b"\n\n"
_PLAIN_BREAK = _PLAIN_END + _PLAIN_START
_PLAIN_BYTES = len(_PLAIN_BREAK)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BARE_ERROR = re.compile(rb'\{\s*"error"\s*:')


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One dispatched event: its data lines joined by newlines, and its type."""

    data: str
    type: str = "message"


class SseReader:
    """Reads one stream, cut anywhere.

    Work is linear in the bytes fed, however small the pieces: an unfinished line is kept in a
    growing buffer and never searched again.

    Attributes:
        comments: Comment lines seen so far; they prove that the server lives, nothing else.
    """

    __slots__ = ("_after_cr", "_data", "_first_line", "_line", "_type", "comments")

    def __init__(self) -> None:
        self.comments = 0
        self._line = bytearray()
        self._data: list[str] = []
        self._type = ""
        self._after_cr = False
        self._first_line = True

    def feed(self, piece: bytes) -> list[SseEvent]:
        """The events that this piece completes, in order.

        A carriage return ends its line at once; should the line feed of a CRLF come with the
        next piece, it is swallowed there.
        """
        events: list[SseEvent] = []
        start = 1 if self._after_cr and piece.startswith(b"\n") else 0
        if piece:
            self._after_cr = piece.endswith(b"\r")
        for end in _LINE_END.finditer(piece, start):
            self._line += piece[start : end.start()]
            self._take_line(events)
            start = end.end()
        self._line += piece[start:]
        return events

    def close(self) -> list[SseEvent]:
        """The event that the end of the stream leaves behind, if any; at most one."""
        events: list[SseEvent] = []
        if self._line:
            self._take_line(events)
        self._dispatch(events)
        return events

    def _take_line(self, events: list[SseEvent]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._first_line:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._first_line = False
        if not line:
            self._dispatch(events)
        elif line.startswith(b":"):
            self.comments += 1
        elif _BARE_ERROR.match(line):
            self._take_field("error:" + line.decode("utf-8", errors="replace"))
        else:
            # The standard knows no encoding but UTF-8, whatever the header says.
            self._take_field(line.decode("utf-8", errors="replace"))

    def _take_field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._type = value
        elif name == "error":
            self._data.append(value)
            self._type = "error"

    def _dispatch(self, events: list[SseEvent]) -> None:
        # Servers keep connections alive with empty data lines; they carry nothing.
        if any(self._data) or self._type == "error":
            events.append(SseEvent("\n".join(self._data), self._type or "message"))
        self._data.clear()
        self._type = ""


def plain_events(pieces: Sequence[tuple[int, bytes]]) -> tuple[list[int], list[bytes]] | None:
    """Instants and data of the events, if a stream is nothing but events of the plainest form.

    That is one ``data: `` line each, ended by two line feeds, as llama.cpp and vLLM write them; an
    event's instant is that of the piece which completed it. Where something unusual is within the
    data of one, :class:`SseReader` finds the same event in its line.

    Args:
        pieces: The whole stream, cut anywhere, with the instant of each piece.

    Returns:
        ``None`` for any other stream, which is to be fed to a reader.
    """
    whole = b"".join([data for _, data in pieces])
    if not whole.startswith(_PLAIN_START) or not whole.endswith(_PLAIN_END) or b"\r" in whole:
        return None
    datas = whole[len(_PLAIN_START) : -len(_PLAIN_END)].split(_PLAIN_BREAK)
    if whole.count(b"\n") != len(_PLAIN_END) * len(datas):
        return None
    sizes = [len(data) + _PLAIN_BYTES for data in datas]
    if sizes == [len(data) for _, data in pieces]:
        return [t_ns for t_ns, _ in pieces], datas
    ends = list(accumulate(len(data) for _, data in pieces))
    return [pieces[bisect_left(ends, end)][0] for end in accumulate(sizes)], datas
