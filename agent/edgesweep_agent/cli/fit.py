"""``edgesweep-agent fit``: how many requests at once a model leaves room for, by arithmetic."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path  # noqa: TC003 - typer resolves the annotation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgesweep_agent import memory
from edgesweep_agent.core.available import of_class
from edgesweep_agent.core.sizes import size_bytes, size_text
from edgesweep_agent.core.verdict import (
    MOST_SEQUENCES,
    LlamaCpp,
    Vllm,
    bytes_per_request,
    judge,
    largest_level,
)
from edgesweep_agent.errors import UsageError

from . import options  # noqa: TC001 - typer resolves the annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgesweep_agent.core.available import Available
    from edgesweep_agent.core.model_shape import ModelShape
    from edgesweep_agent.core.verdict import Setup

SETUPS: dict[str, Callable[[int, int], Setup]] = {"llama.cpp": LlamaCpp, "vLLM": Vllm}
"""Each engine as it is started for so many requests at once of so many tokens."""

_WIDTHS = {0: 7, 1: 6}
"""Of the level and the answer; a size takes 10."""


def fit(
    model: Annotated[
        Path, typer.Argument(help="A GGUF file, or a folder with config.json and *.safetensors.")
    ],
    context: options.Context = 4096,
    reserve: options.Reserve = "512MiB",
    hardware_class: options.HardwareClass = None,
    levels: options.FitLevels = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell how many requests at once fit in memory, for each engine, without starting one."""
    box = _box(hardware_class)
    reserved = _parsed("--reserve", size_bytes, reserve)
    asked = _parsed("--levels", _levels, levels) if levels else ()
    report = fit_object(model, box, reserve_bytes=reserved, context=context, levels=asked)
    if as_json:
        typer.echo(json.dumps(report, indent=2))
        return
    for line in fit_lines(report):
        typer.echo(line)


def fit_object(
    path: Path, box: Available, *, reserve_bytes: int, context: int, levels: tuple[int, ...]
) -> dict[str, Any]:
    """The JSON of an answer.

    Raises:
        UsageError: the model cannot be read.
    """
    shapes = {name: memory.model(path, honours_windows=name != "llama.cpp") for name in SETUPS}
    shape = next(iter(shapes.values()))
    return {
        "model": {
            "name": path.resolve().name,
            "arch": shape.arch,
            "layers": len(shape.layers),
            "weight_bytes": shape.weight_bytes,
            "bits_per_weight": shape.bits_per_weight,
            "context_length": shape.context_length or None,
        },
        "memory": {
            "total_bytes": box.total_bytes,
            "available_bytes": box.available_bytes,
            "limited_by": box.limited_by,
        },
        "reserve_bytes": reserve_bytes,
        "context_per_request": context,
        "engines": [
            _engine(name, shapes[name], setup(1, context), box, reserve_bytes, levels)
            for name, setup in SETUPS.items()
        ],
    }


def fit_lines(report: Mapping[str, Any]) -> list[str]:
    """The answer for people: one verdict an engine, each with its arithmetic."""
    model, box = report["model"], report["memory"]
    bits = model["bits_per_weight"]
    weights = f"{size_text(model['weight_bytes'])} of weights"
    if bits:
        weights += f", {bits:.2f} bits per weight"
    free = f"{size_text(box['available_bytes'])} available ({box['limited_by']})"
    lines = [
        f"model    {model['name']}: {model['arch']}, {model['layers']} layers, {weights}",
        f"memory   {free}, reserve {size_text(report['reserve_bytes'])}",
        f"context  {report['context_per_request']:,} tokens a request",
    ]
    trained = model["context_length"]
    if trained and report["context_per_request"] > trained:
        lines.append(f"         more than the {trained:,} that the model was trained for")
    for engine in report["engines"]:
        lines += ["", *_engine_lines(engine)]
    return lines


def _engine(
    name: str,
    shape: ModelShape,
    one: Setup,
    box: Available,
    reserve_bytes: int,
    levels: tuple[int, ...],
) -> dict[str, Any]:
    available = box.available_bytes or 0
    largest = largest_level(shape, one, available_bytes=available, reserve_bytes=reserve_bytes)
    told = sorted({*levels, *(n for n in (largest, largest + 1) if 0 < n <= MOST_SEQUENCES)})
    verdicts = {
        level: judge(
            shape,
            replace(one, slots=level),
            available_bytes=available,
            reserve_bytes=reserve_bytes,
            limited_by=box.limited_by,
        )
        for level in told
    }
    return {
        "engine": name,
        "largest_level": largest,
        "bytes_per_request": bytes_per_request(shape, replace(one, slots=max(largest, 1))),
        "calibration": one.calibration.source,
        "levels": [
            {
                "level": level,
                "admit": verdict.admit,
                "needed_bytes": verdict.needed_bytes,
                "terms": dict(verdict.terms),
                "text": verdict.text,
            }
            for level, verdict in verdicts.items()
        ],
    }


def _engine_lines(engine: Mapping[str, Any]) -> list[str]:
    largest, levels = engine["largest_level"], engine["levels"]
    most = ", the most it serves" if largest == MOST_SEQUENCES else ""
    answer = f"up to {largest} at once{most}" if largest else "not even one request fits"
    more = size_text(round(engine["bytes_per_request"]))
    names = tuple(levels[0]["terms"])
    told = next((level for level in levels if not level["admit"]), levels[-1])
    return [
        f"{engine['engine']}: {answer}; each additional request takes about {more}",
        _row(("level", "fits", *names, "needed")),
        *map(_level_line, levels),
        f"  {told['text']}",
        f"  beside weights and KV: {engine['calibration']}",
    ]


def _level_line(level: Mapping[str, Any]) -> str:
    terms = (size_text(size) for size in level["terms"].values())
    fits = "yes" if level["admit"] else "no"
    return _row((str(level["level"]), fits, *terms, size_text(level["needed_bytes"])))


def _row(cells: tuple[str, ...]) -> str:
    return "".join(f"{cell:>{_WIDTHS.get(n, 10)}}" for n, cell in enumerate(cells))


def _box(hardware_class: str | None) -> Available:
    if hardware_class is not None:
        box: Available = _parsed("--class", of_class, hardware_class)
        return box
    box = memory.available()
    if box.available_bytes is None:
        raise UsageError(f"what is free here is unknown ({box.limited_by}): give --class, as in 8g")
    return box


def _levels(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdigit() and 0 < int(word) <= MOST_SEQUENCES for word in words):
        raise ValueError(f"{text!r}: write levels from 1 to {MOST_SEQUENCES} as 1,4,16")
    return tuple(sorted({int(word) for word in words}))


def _parsed(option: str, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option} {error}") from error
