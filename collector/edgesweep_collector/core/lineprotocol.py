"""InfluxDB line protocol from typed points: one spelling for each point, none that injects.

The rules hold on InfluxDB 1.x, 2.x and 3, whose parsers differ in what they make of a stray
backslash, a newline in a tag or an integer where a float was (influxdata/influxdb#5407, #6008,
#17953; influxdata/influxdb-python#537, #632).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

# Names come again with every point. A longer one is somebody's joke, and is not kept.
_KEPT_LENGTH = 64
_KEPT_NAMES = 4096


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
        text: The line, the same for equal points whatever the order of their dicts; ``None`` when
            no field is left to write, since a point without fields makes an empty request
            (influxdata/influxdb-client-python#80).
        dropped_fields: Fields left out because line protocol cannot express them: a NaN or
            infinite value makes a server refuse the whole batch (#7 there).
    """

    text: str | None
    dropped_fields: int = 0


def line(point: Point) -> Line:
    """The line of ``point``.

    Of two fields, or two tags, whose names have one normal form, the greater name stays; a field
    that has the name of a tag is left out, since 1.x renames it and 3 refuses it.

    Raises:
        ValueError: the measurement is empty.
    """
    fields = {
        key_text(key): text
        for key, value in sorted(point.fields.items())
        if (text := _value(value)) is not None
    }
    for key in ("", *map(key_text, point.tags)):
        fields.pop(key, None)
    series = series_text(point.measurement, point.tags)
    return joined(series, fields.items(), len(point.fields), point.time_ns)


def joined(series: str, fields: Iterable[tuple[str, str]], wanted: int, time_ns: int) -> Line:
    """A line of parts that are spelled already.

    Args:
        series: As :func:`series_text` makes it.
        fields: Names as :func:`key_text` spells them, each once, with their values as text.
        wanted: How many fields there were to be.
        time_ns: Nanoseconds since 1970.
    """
    told = [f"{key}={text}" for key, text in fields]
    dropped = wanted - len(told)
    return Line(f"{series} {','.join(told)} {time_ns}" if told else None, dropped)


def series_text(measurement: str, tags: Mapping[str, str]) -> str:
    """What a line begins with: the measurement and the tags.

    Raises:
        ValueError: the measurement is empty.
    """
    if not measurement:
        raise ValueError("a point needs a measurement")
    # Two keys may share a normal form; a line with one tag twice is refused, so one stays.
    kept = {key_text(key): key_text(text) for key, text in sorted(tags.items()) if key and text}
    spelled = [f"{key}={text}" for key, text in sorted(kept.items())]
    return ",".join([_measurement(measurement), *spelled])


def key_text(name: str) -> str:
    """The spelling of a tag's key, a tag's value or a field's key."""
    return _kept_key(name) if len(name) <= _KEPT_LENGTH else _key(name)


def float_text(value: float) -> str | None:
    """The spelling of a float, whole ones too; ``None`` for what is not finite."""
    # float.__repr__, since numpy's floats are floats whose own repr is not a number.
    return float.__repr__(value).removesuffix(".0") if math.isfinite(value) else None


def plain(text: str) -> str:
    """The normal form of names and tag values: ``/`` for each backslash, no control characters.

    Each of those becomes a space. Idempotent.
    """
    return text.translate(_PLAIN)


def _key(text: str) -> str:
    return plain(text).translate(_ESCAPE_KEY)


_kept_key = lru_cache(_KEPT_NAMES)(_key)


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
    return float_text(value)
