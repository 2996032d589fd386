"""InfluxDB line protocol from typed points: one spelling for each point, none that injects.

The rules hold on InfluxDB 1.x, 2.x and 3, whose parsers differ in what they make of a stray
backslash, a newline in a tag or an integer where a float was (influxdata/influxdb#5407, #6008,
#17953; influxdata/influxdb-python#537, #632).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FieldValue = bool | int | float | str
"""What a field may hold; the Python type decides the InfluxDB type."""

_INT64 = range(-(2**63), 2**63)
# A lone surrogate fits in a Python string and in no request.
_NO_UTF8 = dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
_CONTROL = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
# A backslash before a separator is read as an escape by some parsers and literally by others,
# so none is ever written as data; every control character would be a line or word break to one
# parser or the next.
_PLAIN = {ord("\\"): "/", **dict.fromkeys(_CONTROL, " "), **_NO_UTF8}
_ESCAPE_KEY = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ "})
_ESCAPE_MEASUREMENT = str.maketrans({",": r"\,", " ": r"\ "})
_ESCAPE_STRING = str.maketrans({'"': r"\"", "\\": r"\\"}) | _NO_UTF8


@dataclass(frozen=True, slots=True)
class Point:
    """One point: what a line says, before it is spelled.

    Attributes:
        measurement: Its table; not empty.
        tags: Indexed text. Empty keys and values are left out of the line.
        fields: Values by name; a float stays a float even when it is whole.
        time_ns: Nanoseconds since 1970, always written.
    """

    measurement: str
    tags: Mapping[str, str]
    fields: Mapping[str, FieldValue]
    time_ns: int


@dataclass(frozen=True, slots=True)
class Line:
    """A point as text, without a newline at its end.

    Attributes:
        text: The line, the same for equal points whatever the order of their dicts.
        dropped_fields: Fields left out because line protocol cannot express their value.
    """

    text: str
    dropped_fields: int = 0


def line(point: Point) -> Line | None:
    """The line of ``point``, or ``None`` when no field is left to write.

    A NaN or infinite field makes a server refuse the whole batch
    (influxdata/influxdb-client-python#7), and a point without fields makes an empty request
    (#80 there), so both are left out here: of a ``None`` point, all ``len(point.fields)`` fields
    were dropped.

    Raises:
        ValueError: the measurement is empty.
    """
    if not point.measurement:
        raise ValueError("a point needs a measurement")
    values = ((key, _value(value)) for key, value in sorted(point.fields.items()) if key)
    fields = [f"{_key(key)}={text}" for key, text in values if text is not None]
    if not fields:
        return None
    series = ",".join([_measurement(point.measurement), *_tags(point.tags)])
    return Line(
        text=f"{series} {','.join(fields)} {point.time_ns}",
        dropped_fields=len(point.fields) - len(fields),
    )


def plain(text: str) -> str:
    """The normal form of names and tag values: ``/`` for each backslash, no control characters.

    Each of those becomes a space. Idempotent.
    """
    return text.translate(_PLAIN)


def _tags(tags: Mapping[str, str]) -> list[str]:
    # Two keys may share a normal form; a line with one tag twice is refused, so one stays.
    kept = {plain(key): plain(value) for key, value in sorted(tags.items()) if key and value}
    return [f"{_key(key)}={_key(value)}" for key, value in sorted(kept.items())]


def _key(text: str) -> str:
    return plain(text).translate(_ESCAPE_KEY)


def _measurement(text: str) -> str:
    # A line that begins with '#' is a comment, and an escape for it is not in every parser.
    name = f"/{text}" if text.startswith("#") else text
    return plain(name).translate(_ESCAPE_MEASUREMENT)


def _value(value: FieldValue) -> str | None:
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPE_STRING)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}i" if value in _INT64 else None
    return _float(value)


def _float(value: float) -> str | None:
    # float.__repr__, since numpy's floats are floats whose own repr is not a number.
    return float.__repr__(value).removesuffix(".0") if math.isfinite(value) else None
