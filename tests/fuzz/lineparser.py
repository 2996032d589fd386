"""Line protocol read by its grammar, apart from the code that writes it: the oracle of a fuzzer.

https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/; what parsers read in two
ways (a backslash before anything but what it escapes) is refused.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass, field

_BREAKS = {"Cc", "Zl", "Zp"}


@dataclass
class Parsed:
    """What a line says."""

    measurement: str
    tags: dict[str, str] = field(default_factory=dict)
    fields: dict[str, object] = field(default_factory=dict)
    time_ns: int = 0


class LineError(ValueError):
    """Not one line of line protocol that all servers read alike."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def name(self, escaped: str, ends: str) -> str:
        """Up to an unescaped character of ``ends``, which stays."""
        found = []
        while self.at < len(self.text) and self.text[self.at] not in ends:
            char = self.text[self.at]
            if char == "\\":
                self.at += 1
                char = self.text[self.at : self.at + 1]
                if char not in escaped or not char:
                    raise LineError(f"a backslash before {char!r}")
            if not char.isprintable() and unicodedata.category(char) in _BREAKS:
                raise LineError(f"{char!r} in a name")
            found.append(char)
            self.at += 1
        if not found:
            raise LineError(f"nothing at {self.at}")
        return "".join(found)

    def take(self, wanted: str) -> str:
        char = self.text[self.at : self.at + 1]
        if not char or char not in wanted:
            raise LineError(f"{char!r} at {self.at}, not one of {wanted!r}")
        self.at += 1
        return char

    def string(self) -> str:
        self.take('"')
        found = []
        while (char := self.text[self.at : self.at + 1]) != '"':
            if char == "\\":
                self.at += 1
                char = self.text[self.at : self.at + 1]
                if not char or char not in '\\"':
                    raise LineError(f"a backslash before {char!r} in a string")
            if not char:
                raise LineError("a string without an end")
            found.append(char)
            self.at += 1
        self.at += 1
        return "".join(found)

    def value(self) -> object:
        if self.text[self.at] == '"':
            return self.string()
        end = min(
            (n for n in (self.text.find(",", self.at), self.text.find(" ", self.at)) if n >= 0),
            default=len(self.text),
        )
        text, self.at = self.text[self.at : end], end
        if text in {"true", "false"}:
            return text == "true"
        if text.endswith("i"):
            whole = int(text[:-1])
            if not -(2**63) <= whole < 2**63:
                raise LineError(f"{whole} is beyond 64 bits")
            return whole
        found = float(text)
        if not math.isfinite(found):
            raise LineError(f"{text} is not finite")
        return found


def parsed(text: str) -> Parsed:
    """What one line says.

    Raises:
        LineError: it is no line, or one that not all servers read alike.
        ValueError: a number is none.
    """
    text.encode()
    reader = _Reader(text)
    if text.startswith("#"):
        raise LineError("a comment")
    made = Parsed(reader.name(", ", ", "))
    while reader.take(", ") == ",":
        key = reader.name(",= ", ",= ")
        reader.take("=")
        if key in made.tags:
            raise LineError(f"tag {key!r} twice")
        made.tags[key] = reader.name(",= ", ",= ")
    while True:
        key = reader.name(",= ", ",= ")
        reader.take("=")
        if key in made.fields or key in made.tags:
            raise LineError(f"{key!r} twice")
        made.fields[key] = reader.value()
        if reader.take(", ") == " ":
            break
    made.time_ns = int(text[reader.at :])
    return made
