"""The text that Prometheus scrapes, read line by line: one bad line costs that line alone.

The content type is not trusted: some llama.cpp builds serve the text as JSON, quoted or not
(ggml-org/llama.cpp#17384, PR#17386). Sample values that are no finite number become ``None``
and are counted (ggml-org/llama.cpp#11868: ``-nan`` before the first request).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

QUOTED = "metrics_body_quoted"
"""The warning for a body that was a JSON string around the text."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|(?=}))')
_OPENED = re.compile(r"[ \t]*{")
_CLOSED = re.compile(r"\s*}")
_VALUE = re.compile(r"[ \t]*(\S+)(?:[ \t]+-?\d[\d.]*(?:[eE][+-]?\d+)?)?(?:[ \t]+#.*)?")
"""The value; a timestamp and an OpenMetrics exemplar may follow."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Series:
    """One sample line. ``value`` is ``None`` where it was no finite number."""

    name: str
    labels: Mapping[str, str]
    value: float | None


@dataclass(frozen=True, slots=True)
class Exposition:
    """What a scrape said.

    Attributes:
        bad_samples: Lines without a usable value: not finite, or not to be read at all.
        error: Why nothing could be read; empty if there is at least one sample.
    """

    series: tuple[Series, ...] = ()
    bad_samples: int = 0
    warnings: tuple[str, ...] = ()
    error: str = ""

    def named(self, names: Iterable[str]) -> tuple[Series, ...]:
        """The series of the first of ``names`` that is there: aliases, the newest first."""
        for name in names:
            found = tuple(series for series in self.series if series.name == name)
            if found:
                return found
        return ()

    def values(self, names: Iterable[str]) -> tuple[float, ...]:
        """Their values; none if one of them is unknown, since a part is not the whole."""
        values = [series.value for series in self.named(names)]
        known = tuple(value for value in values if value is not None)
        return known if len(known) == len(values) else ()

    def total(self, names: Iterable[str]) -> float | None:
        """Their sum over all labels (data-parallel engines); ``None`` is "not told"."""
        values = self.values(names)
        return math.fsum(values) if values else None

    def has(self, prefix: str) -> bool:
        """Whether any sample's name starts with ``prefix``."""
        return any(series.name.startswith(prefix) for series in self.series)


def parse(text: str) -> Exposition:
    """Read the body of a scrape; it never raises."""
    body, warnings = _unquoted(text)
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Series] = {}
    bad = 0
    for line in _sample_lines(body):
        series = _series(line)
        bad += series is None or series.value is None
        if series is not None:
            found[series.name, tuple(sorted(series.labels.items()))] = series
    error = "" if found else "no sample in the answer"
    return Exposition(tuple(found.values()), bad, warnings, error)


def _unquoted(text: str) -> tuple[str, tuple[str, ...]]:
    stripped = text.strip("\ufeff \t\r\n")
    if stripped.startswith('"'):
        try:
            inside = json.loads(stripped)
        except ValueError:
            return text, ()
        return inside, (QUOTED,)
    return stripped, ()


def _sample_lines(text: str) -> Iterator[str]:
    # Only a line feed ends a line: label values may hold every other separator.
    for line in text.split("\n"):
        stripped = line.strip(" \t\r")
        if stripped and not stripped.startswith("#"):
            yield stripped


def _series(line: str) -> Series | None:
    name = _NAME.match(line)
    if name is None:
        return None
    opened = _OPENED.match(line, name.end())
    if opened is None and line[name.end() : name.end() + 1] not in (" ", "\t"):
        return None
    read = ({}, name.end()) if opened is None else _labels(line, opened.end())
    if read is None:
        return None
    labels, end = read
    value = _VALUE.fullmatch(line, end)
    if value is None or not (_NUMBER.fullmatch(value[1]) or _NOT_FINITE.fullmatch(value[1])):
        return None
    number = float(value[1])
    return Series(name[0], labels, number if math.isfinite(number) else None)


def _labels(line: str, start: int) -> tuple[dict[str, str], int] | None:
    labels: dict[str, str] = {}
    at = start
    while (closed := _CLOSED.match(line, at)) is None:
        label = _LABEL.match(line, at)
        if label is None:
            return None
        labels[label[1]] = _ESCAPE.sub(_unescaped, label[2])
        at = label.end()
    return labels, closed.end()


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
