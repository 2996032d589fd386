"""``crossover FILE``: the answer to one crossover problem, or to every one of a file."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  # typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.problem_json import ProblemError, read_problems
from edgesweep_collector.core.words import words
from edgesweep_collector.errors import UsageError
from edgesweep_collector.report.text import render_text

from . import values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgesweep_collector.core.problem import Problem

_MOST_DIGITS = 400


def crossover(
    file: Annotated[
        Path,
        typer.Argument(
            parser=values.path,
            metavar="FILE",
            help='One problem, or {"vectors": [...]}, as JSON.',
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Say at which concurrency one engine overtakes the other, or why none does."""
    document = _document(file)
    try:
        problems = read_problems(document)
    except ProblemError as error:
        _refuse(file, str(error), "correct it there")
    many = isinstance(document, dict) and "vectors" in document
    typer.echo(_as_json(problems, many) if as_json else _as_text(problems), nl=as_json)


def _document(file: Path) -> object:
    try:
        return json.loads(
            file.read_text(encoding="utf-8"),
            parse_int=_whole,
            object_pairs_hook=_no_duplicates,
        )
    except OSError as error:
        _refuse(file, error.strerror or "cannot be read", "name a readable JSON file")
    except UnicodeDecodeError:
        _refuse(file, "not UTF-8 text", "save it as UTF-8 JSON")
    except (ValueError, RecursionError) as error:
        _refuse(file, f"not valid JSON: {error}", "correct it there")


def _whole(digits: str) -> float:
    """As Python reads it, which refuses thousands of digits without saying where they are."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _no_duplicates(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f'the key "{twice}" is given twice in one object')
    return found


def _refuse(file: Path, problem: str, remedy: str) -> NoReturn:
    raise UsageError(f"{file}: {problem} ({remedy})")


def _as_text(problems: Sequence[Problem]) -> str:
    return "\n".join(render_text(problem, estimate(problem)) for problem in problems)


def _as_json(problems: Sequence[Problem], many: bool) -> str:
    answers = [_answer(problem) for problem in problems]
    return json.dumps(
        {"vectors": answers} if many else answers[0],
        allow_nan=False,
        ensure_ascii=False,
        indent=2,
    )


def _answer(problem: Problem) -> dict[str, object]:
    answer = estimate(problem)
    return {"id": problem.id, **answer.as_json(), "words": words(problem, answer)}
