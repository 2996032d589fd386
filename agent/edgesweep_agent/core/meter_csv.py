"""The log of an external meter as readings: columns are found by name, times made absolute.

Meters write what their makers like: lines of junk before the header, commas or semicolons,
decimal commas, power or voltage and current or an energy counter, local or relative time.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from .energy import Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .energy import Point

DELIMITERS = (";", "\t", ",")
_NS = 1_000_000_000
_EPOCHS = ((10**17, 1), (10**14, 10**3), (10**11, 10**6), (10**9, 10**9))
"""Numbers from so much on are ns, us, ms, s since 1970; a smaller one counts from a start."""

_UNITS = {
    "power": {"w": 1.0, "watt": 1.0, "watts": 1.0, "mw": 1e-3, "milliwatts": 1e-3, "kw": 1e3},
    "voltage": {"v": 1.0, "volt": 1.0, "volts": 1.0, "mv": 1e-3},
    "current": {"a": 1.0, "amp": 1.0, "amps": 1.0, "ampere": 1.0, "ma": 1e-3},
    "energy": {
        "wh": 3600.0, "mwh": 3.6, "kwh": 3.6e6, "j": 1.0, "ws": 1.0, "joule": 1.0, "joules": 1.0,
        "mj": 1e-3, "kj": 1e3,
    },
}  # fmt: skip
_WORDS = {"power": "power", "voltage": "voltage", "current": "current"}
_TIMES = frozenset({"time", "timestamp", "datetime", "epoch", "elapsed", "seconds"})
_NOT_IT = frozenset(
    {"apparent", "reactive", "factor", "va", "var", "pf", "min", "max", "peak", "limit"}
)
"""Beside the active power of now, meters log others under like names."""
_RELATIVE_SCALE = {"ms": 1e-3, "min": 60.0}

_ISO = re.compile(
    r"(\d{4})[-/](\d\d?)[-/](\d\d?)[T ]+(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"\s*(Z|UTC|[+-]\d\d:?\d\d)?"
)
_DOTTED = re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


class MeterError(ValueError):
    """The text is no log of a meter that we understand; says in which line, and what to do."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a meter logged.

    Attributes:
        series: Its readings at the boundary ``wall``; ns since 1970, or since an unknown start.
        relative: The start is unknown.
        period_s: Median time between two readings.
        columns: The headers that were used, for people.
        skipped: Lines after the header that hold no readings.
    """

    series: Series
    relative: bool
    period_s: float
    columns: tuple[str, ...]
    skipped: int


@dataclass(frozen=True, slots=True)
class _Header:
    """Where each column is, and what its unit is in W, V, A, J or seconds."""

    line: int
    delimiter: str
    names: tuple[str, ...]
    columns: Mapping[str, tuple[int, float]]

    @property
    def kind(self) -> str:
        """What it measures: power beats voltage times current, which beat a coarse counter."""
        if "power" in self.columns:
            return "power"
        return "va" if {"voltage", "current"} <= self.columns.keys() else "energy"


def parse(text: str, *, start_ns: int | None = None) -> Trace:
    """Read a log.

    Args:
        text: The whole file.
        start_ns: For times that count from a start: when that was, in ns since 1970.

    Raises:
        MeterError: no header, no readings, or times that go back.
    """
    lines = text.splitlines()
    header = _header(lines)
    times: list[tuple[int, bool]] = []
    values: list[float] = []
    skipped = 0
    for number, cells in _rows(lines, header):
        time, value = _time(cells, header), _value(cells, header)
        if time is None or value is None or (times and time[1] is not times[0][1]):
            skipped += bool("".join(cells).strip())
            continue
        if times and time[0] < times[-1][0]:
            raise MeterError(
                f"line {number}: time goes back: the meter's clock was set; cut the log there"
            )
        times.append(time)
        values.append(value)
    if not times:
        raise MeterError(f"line {header.line}: a header, and no readings below it")
    return _trace(header, times, values, skipped, start_ns)


def shifted(trace: Trace, offset_ns: int) -> Trace:
    """The same readings with ``offset_ns`` added to the meter's clock, which is then known."""
    points = [(t + offset_ns, value) for t, value in trace.series.points]
    return Trace(
        _series(trace.series.unit, points), False, trace.period_s, trace.columns, trace.skipped
    )


def step_ns(trace: Trace, start_ns: int, end_ns: int, *, over_s: float = 3.0) -> int | None:
    """When a load began, between two instants of the meter's clock; ``None`` if none did.

    A step is the difference between the means of ``over_s`` before and after it. The largest has
    to be more than half the range of the readings; the first that is half as large counts, since
    later levels take more power than the first.
    """
    points = _power(trace)
    near = [point for point in points if start_ns <= point[0] <= end_ns]
    width = max(2, round(over_s / trace.period_s))
    if len(near) < 2 * width:
        return None
    sums = [0.0]
    for _, watts in near:
        sums.append(sums[-1] + watts)
    rises = [
        (sums[at + width] - 2 * sums[at] + sums[at - width]) / width
        for at in range(width, len(near) - width + 1)
    ]
    rise = max(rises)
    lowest, highest = min(w for _, w in near), max(w for _, w in near)
    if rise <= (highest - lowest) / 2 or rise <= 0:
        return None
    first = next(at for at, one in enumerate(rises) if one >= rise / 2)
    top = max(range(first, min(first + width, len(rises))), key=lambda at: rises[at])
    at = top + width
    return (near[at - 1][0] + near[at][0]) // 2


def instant_ns(text: str) -> int | None:
    """An instant as ISO 8601 or a number since 1970, in ns; without a zone it is UTC."""
    return _iso_ns(text) or _epoch_ns(text)


def _header(lines: Sequence[str]) -> _Header:
    for number, line in enumerate(lines, start=1):
        for delimiter in DELIMITERS:
            names = tuple(cell.strip() for cell in _cells(line, delimiter))
            columns = _columns(names)
            measures = "power" in columns or "energy" in columns
            if "time" in columns and (measures or {"voltage", "current"} <= columns.keys()):
                return _Header(number, delimiter, names, columns)
    first = next((line for line in lines if line.strip()), "(nothing)")[:80]
    raise MeterError(
        "no line names a time and a power column: wanted is a header such as "
        f"`time;power (W)`, `timestamp,voltage,current` or `time,energy (Wh)`; it begins: {first}"
    )


def _columns(names: Iterable[str]) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for at, name in enumerate(names):
        told = _column(name)
        if told is not None:
            found.setdefault(told[0], (at, told[1]))
    if "date" in found and "time" not in found:
        found["time"] = found.pop("date")
    return found


def _column(name: str) -> tuple[str, float] | None:
    """What a header names, and what one unit of it is; ``None`` for what is of no use."""
    words = re.findall(r"[a-z]+", name.lower())
    if "date" in words and "time" not in words:
        return "date", 1.0
    if _TIMES & set(words):
        scales = (_RELATIVE_SCALE[word] for word in words if word in _RELATIVE_SCALE)
        return "time", next(scales, 1.0)
    if _NOT_IT & set(words):
        return None
    for kind, units in _UNITS.items():
        for word in reversed(words):
            if word in units:
                return kind, units[word]
    return next(((_WORDS[word], 1.0) for word in words if word in _WORDS), None)


def _rows(lines: Sequence[str], header: _Header) -> Iterable[tuple[int, list[str]]]:
    for number, line in enumerate(lines[header.line :], start=header.line + 1):
        yield number, _cells(line, header.delimiter)


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return []


def _cell(cells: Sequence[str], header: _Header, kind: str) -> tuple[str, float]:
    at, scale = header.columns[kind]
    return (cells[at].strip() if at < len(cells) else ""), scale


def _time(cells: Sequence[str], header: _Header) -> tuple[int, bool] | None:
    """Nanoseconds, and whether they count from a start."""
    text, scale = _cell(cells, header, "time")
    if "date" in header.columns:
        text = f"{_cell(cells, header, 'date')[0]} {text}"
    known = instant_ns(text)
    if known is not None:
        return known, False
    number = _number(text, header.delimiter)
    return None if number is None else (round(number * scale * _NS), True)


def _value(cells: Sequence[str], header: _Header) -> float | None:
    kinds = ("voltage", "current") if header.kind == "va" else (header.kind,)
    product = 1.0
    for kind in kinds:
        text, scale = _cell(cells, header, kind)
        # A unit in the cell itself changes with the range that the meter is in.
        found = re.fullmatch(r"(.*?)\s*([A-Za-z]*)", text)
        number = _number(found[1], header.delimiter) if found else None
        if found is None or number is None:
            return None
        product *= number * _UNITS[kind].get(found[2].lower(), scale)
    return product


def _number(text: str, delimiter: str) -> float | None:
    plain = text.replace("\N{NO-BREAK SPACE}", "")
    if delimiter == "," and _THOUSANDS.fullmatch(plain):
        plain = plain.replace(",", "")
    elif "," in plain:
        plain = plain.replace(".", "").replace(",", ".")
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", plain):
        return None
    return float(plain)


def _epoch_ns(text: str) -> int | None:
    plain = text.strip().replace(",", ".")
    if not re.fullmatch(r"\d{10,19}(\.\d+)?", plain):
        return None
    whole, _, fraction = plain.partition(".")
    unit_ns = next((unit for least, unit in _EPOCHS if int(whole) >= least), None)
    if unit_ns is None:
        return None
    return int(whole) * unit_ns + round(float(f"0.{fraction or 0}") * unit_ns)


def _iso_ns(text: str) -> int | None:
    """Floats do not hold ns since 1970: whole seconds and the fraction are kept apart."""
    found = _ISO.fullmatch(_DOTTED.sub(r"\3-\2-\1", text.strip()))
    if found is None:
        return None
    *date, second, fraction, zone = found.groups()
    try:
        at = datetime(*map(int, date), int(second or 0), tzinfo=_zone(zone))  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    whole = (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(seconds=1)
    return whole * _NS + int((fraction or "0").ljust(9, "0"))


def _zone(text: str | None) -> timezone:
    if text in {None, "Z", "UTC"}:
        return timezone.utc
    sign = -1 if str(text)[0] == "-" else 1
    digits = re.sub(r"\D", "", str(text))
    return timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:])))


def _trace(
    header: _Header,
    times: Sequence[tuple[int, bool]],
    values: Sequence[float],
    skipped: int,
    start_ns: int | None,
) -> Trace:
    relative = times[0][1]
    offset = (start_ns or 0) - times[0][0] if relative and start_ns is not None else 0
    unit = "J" if header.kind == "energy" else "W"
    points = _merged([(t + offset, v) for (t, _), v in zip(times, values, strict=True)], unit)
    steps = [(after - before) / _NS for (before, _), (after, _) in pairwise(points)]
    used = {"power": ["power"], "va": ["voltage", "current"], "energy": ["energy"]}[header.kind]
    return Trace(
        _series(unit, points),
        relative and start_ns is None,
        median(steps) if steps else 0.0,
        tuple(header.names[header.columns[kind][0]] for kind in ["time", *used]),
        skipped,
    )


def _series(unit: str, points: Sequence[Point]) -> Series:
    return Series("energy_wall" if unit == "J" else "power_wall", unit, "wall", points)


def _merged(points: Sequence[Point], unit: str) -> list[Point]:
    """Readings of one instant, as of a clock that shows whole seconds, as one: mean or last."""
    found: list[Point] = []
    same: list[float] = []
    for t, value in points:
        if found and found[-1][0] == t:
            same.append(value)
            found[-1] = (t, value if unit == "J" else sum(same) / len(same))
        else:
            found.append((t, value))
            same = [value]
    return found


def _power(trace: Trace) -> Sequence[Point]:
    points = trace.series.points
    if trace.series.unit == "W":
        return points
    return [
        ((before[0] + after[0]) // 2, (after[1] - before[1]) * _NS / (after[0] - before[0]))
        for before, after in pairwise(points)
    ]
