"""Reads crossover problems from decoded JSON; every complaint names the key it is about."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final, TypeVar

from edgesweep_collector.core.problem import DEFAULT_MARGIN, Curve, Limit, Problem, Unit, UnitKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")

_UNIT_KINDS: Final[Mapping[str, UnitKind]] = {"devices": "device", "sessions": "session"}
_LEVEL: Final = re.compile(r"0*[1-9][0-9]{0,8}")
_MOST: Final = 1e300
"""Beyond that, ratios overflow."""
_KEYS: Final = ("id", "title", "metric", "higher_is_better", "equivalence_margin", "engines")
_KEYS_OF_DATA: Final = ("cells", "units", "capacity")
# Provenance and expectations that published vectors carry beside the data.
_KEYS_OF_NOTES: Final = (
    "expected",
    "hand_check",
    "note",
    "relative_tolerance",
    "source",
    "source_states",
)


class ProblemError(ValueError):
    """The input does not describe a crossover problem; ``key`` is the path of what is wrong."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key


def read_problems(document: object) -> tuple[Problem, ...]:
    """Every problem of a document: ``{"vectors": [...]}``, or one problem object.

    Raises:
        ProblemError: a key is missing, unknown or holds something else than it should.
    """
    top = _object(document, "")
    if "vectors" not in top:
        return (read_problem(top),)
    vectors = top["vectors"]
    if not isinstance(vectors, list) or not vectors:
        raise _unexpected("vectors", "a list with at least one problem", vectors)
    return tuple(read_problem(item, f"vectors[{i}]") for i, item in enumerate(vectors))


def read_problem(document: object, key: str = "") -> Problem:
    """One problem object, found at ``key`` of its file.

    ``cells`` maps unit -> ``A`` or ``B`` -> concurrency -> a list of repeats, or null for a level
    that failed. ``units`` is ``"devices"`` (the default) or ``"sessions"`` of one device.

    Raises:
        ProblemError: see ``read_problems``.
    """
    data = _object(document, key)
    _known(data, key, (*_KEYS, *_KEYS_OF_DATA, *_KEYS_OF_NOTES))
    engines = _object(data.get("engines", {}), _at(key, "engines"))
    limits = _object(data.get("capacity", {}), _at(key, "capacity"))
    _known(engines, _at(key, "engines"), ("A", "B"))
    _known(limits, _at(key, "capacity"), ("A", "B"))
    return Problem(
        metric=_required(data, key, "metric", _text),
        higher_is_better=_required(data, key, "higher_is_better", _truth),
        units=_required(data, key, "cells", _units),
        engine_a=_optional(engines, _at(key, "engines"), "A", _text) or "A",
        engine_b=_optional(engines, _at(key, "engines"), "B", _text) or "B",
        margin=_optional(data, key, "equivalence_margin", _margin) or DEFAULT_MARGIN,
        unit_kind=_optional(data, key, "units", _unit_kind) or "device",
        limit_a=_optional(limits, _at(key, "capacity"), "A", _limit),
        limit_b=_optional(limits, _at(key, "capacity"), "B", _limit),
        id=_optional(data, key, "id", _text),
        title=_optional(data, key, "title", _text),
    )


def _units(value: object, key: str) -> tuple[Unit, ...]:
    cells = _object(value, key)
    if not cells:
        raise _unexpected(key, "at least one unit", value)
    return tuple(_unit(name, engines, _at(key, name)) for name, engines in cells.items())


def _unit(name: str, value: object, key: str) -> Unit:
    engines = _object(value, key)
    _known(engines, key, ("A", "B"))
    a, b = (_curve(engines.get(side, {}), _at(key, side)) for side in ("A", "B"))
    return Unit(name, a, b)


def _curve(value: object, key: str) -> Curve:
    curve: dict[int, tuple[float, ...] | None] = {}
    for level, cell in _object(value, key).items():
        if not _LEVEL.fullmatch(level):
            raise ProblemError(
                key, f"expected a concurrency, a whole number from 1, as key, got {_shown(level)}"
            )
        if int(level) in curve:
            raise ProblemError(_at(key, level), f"the level {int(level)} is given twice")
        curve[int(level)] = _cell(cell, _at(key, level))
    return curve


def _cell(value: object, key: str) -> tuple[float, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        return (_value(value, key, "a number, or null for a level that failed"),)
    if not value:
        raise ProblemError(key, "expected repeats, got []; write null for a level that failed")
    what = "a number (of a level that failed there are none: write null for all of it)"
    return tuple(_value(repeat, f"{key}[{i}]", what) for i, repeat in enumerate(value))


def _value(value: object, key: str, what: str) -> float:
    # Zero and below are read: the estimator drops and counts them, as a rounding client's doing.
    return _number(value, key, what)


def _limit(value: object, key: str) -> Limit:
    limit = _object(value, key)
    _known(limit, key, ("last_ok", "first_failed"))
    last_ok = _required(limit, key, "last_ok", _whole)
    first_failed = _required(limit, key, "first_failed", _whole)
    if first_failed <= last_ok:
        raise ProblemError(
            _at(key, "first_failed"), f"expected more than last_ok ({last_ok}), got {first_failed}"
        )
    return Limit(last_ok, first_failed)


def _unit_kind(value: object, key: str) -> UnitKind:
    if not isinstance(value, str) or value not in _UNIT_KINDS:
        raise _unexpected(key, '"devices" or "sessions"', value)
    return _UNIT_KINDS[value]


def _margin(value: object, key: str) -> float:
    margin = _number(value, key, "a share such as 0.05")
    if not 0.0 < margin < 1.0:
        raise _unexpected(key, "a share above 0 and below 1, such as 0.05", value)
    return margin


def _number(value: object, key: str, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _unexpected(key, what, value)
    if abs(value) > _MOST or not math.isfinite(value):
        raise _unexpected(key, f"{what}, finite and at most {_MOST:g}", value)
    return float(value)


def _whole(value: object, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _unexpected(key, "a whole number from 0", value)
    return value


def _truth(value: object, key: str) -> bool:
    if not isinstance(value, bool):
        raise _unexpected(key, "true or false", value)
    return value


def _text(value: object, key: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _unexpected(key, "a text", value)
    return value


def _object(value: object, key: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _unexpected(key, "an object", value)
    return value


def _required(
    data: Mapping[str, object], key: str, name: str, read: Callable[[object, str], _T]
) -> _T:
    if name not in data:
        raise ProblemError(_at(key, name), "missing")
    return read(data[name], _at(key, name))


def _optional(
    data: Mapping[str, object], key: str, name: str, read: Callable[[object, str], _T]
) -> _T | None:
    return read(data[name], _at(key, name)) if data.get(name) is not None else None


def _known(data: Mapping[str, object], key: str, names: tuple[str, ...]) -> None:
    for name in data:
        if name not in names:
            raise ProblemError(_at(key, name), f"unknown key; known are {', '.join(names)}")


def _at(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _unexpected(key: str, what: str, value: object) -> ProblemError:
    return ProblemError(key, f"expected {what}, got {_shown(value)}")


def _shown(value: object) -> str:
    shown = json.dumps(value, default=repr)
    return shown if len(shown) <= 60 else shown[:57] + "..."
