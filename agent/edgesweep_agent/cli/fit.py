"""``edgesweep-agent fit``: how many requests at once a model leaves room for, by arithmetic."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path  # noqa: TC003 - typer resolves the annotation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgesweep.sizes import size_bytes, size_text
from edgesweep_agent import device, memory
from edgesweep_agent.core import gpu_memory
from edgesweep_agent.core.available import of_class
from edgesweep_agent.core.gpu_memory import GpuUse
from edgesweep_agent.core.placement import placed
from edgesweep_agent.core.verdict import (
    MOST_SEQUENCES,
    LlamaCpp,
    Room,
    Vllm,
    bytes_per_request,
    judge,
    most_that,
    tighter,
    weigh,
)
from edgesweep_agent.errors import UsageError

from . import options, values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgesweep_agent.core.available import Available
    from edgesweep_agent.core.gpu_memory import Gpu
    from edgesweep_agent.core.model_shape import ModelShape
    from edgesweep_agent.core.verdict import Setup, Verdict

SETUPS: dict[str, Callable[[int, int], Setup]] = {"llama.cpp": LlamaCpp, "vLLM": Vllm}
"""Each engine as it is started for so many requests at once of so many tokens."""

_WIDTHS = {0: 7, 1: 6}
"""Of the level and the answer; a size takes 10."""


def fit(
    model: Annotated[
        Path,
        typer.Argument(
            parser=values.path,
            metavar="MODEL",
            help="A GGUF file, or a folder with config.json and *.safetensors.",
        ),
    ],
    context: options.Context = 4096,
    reserve: options.Reserve = "512MiB",
    hardware_class: options.HardwareClass = None,
    gpu: options.FitGpu = None,
    levels: options.FitLevels = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell how many requests at once fit in memory, for each engine, without starting one."""
    box = _box(hardware_class)
    reserved = _parsed("--reserve", size_bytes, reserve)
    asked = _parsed("--levels", _levels, levels) if levels else ()
    cards = _cards(hardware_class, gpu)
    report = fit_object(
        model, box, reserve_bytes=reserved, context=context, levels=asked, cards=cards
    )
    if as_json:
        typer.echo(json.dumps(report, indent=2))
        return
    for line in fit_lines(report):
        typer.echo(line)


def fit_object(
    path: Path,
    box: Available,
    *,
    reserve_bytes: int,
    context: int,
    levels: tuple[int, ...],
    cards: tuple[Gpu, ...] = (),
) -> dict[str, Any]:
    """The JSON of an answer.

    Raises:
        UsageError: the model cannot be read.
    """
    shapes = {name: memory.model(path, honours_windows=name != "llama.cpp") for name in SETUPS}
    shape = next(iter(shapes.values()))
    setups = {name: setup(1, context) for name, setup in SETUPS.items()}
    host = Room(box.available_bytes or 0, reserve_bytes, box.limited_by)
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
            "gpus": gpu_memory.text(cards) or None,
        },
        "reserve_bytes": reserve_bytes,
        "context_per_request": context,
        "engines": [
            _engine(name, shapes[name], one, levels, _judge(path, shapes[name], host, cards))
            for name, one in setups.items()
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
        *([f"gpus     {box['gpus']}"] if box["gpus"] else []),
        f"context  {report['context_per_request']:,} tokens a request",
    ]
    trained = model["context_length"]
    if trained and report["context_per_request"] > trained:
        lines.append(f"         more than the {trained:,} that the model was trained for")
    for engine in report["engines"]:
        lines += ["", *_engine_lines(engine)]
    return lines


def _judge(
    path: Path, shape: ModelShape, host: Room, cards: tuple[Gpu, ...]
) -> Callable[[Setup], Verdict]:
    """By the host's memory, and by that of the cards where there are any: vLLM takes the first."""
    weights = memory.layer_weights(path) if cards else None

    def judged(setup: Setup) -> Verdict:
        if not cards:
            return judge(
                shape,
                setup,
                available_bytes=host.available_bytes,
                reserve_bytes=host.reserve_bytes,
                limited_by=host.limited_by,
            )
        count = len(cards) if isinstance(setup, LlamaCpp) else 1
        use = GpuUse(tuple(gpu.index for gpu in cards[:count]))
        left = gpu_memory.pool(cards, use)
        gpu = Room(left.available_bytes or 0, use.reserve_bytes, left.limited_by)
        needs = placed(setup, shape, use, weights)
        return tighter(
            weigh(needs.gpu, gpu, kv_text=needs.gpu_kv_text),
            weigh(needs.host, host, kv_text=needs.host_kv_text),
        )

    return judged


def _engine(
    name: str,
    shape: ModelShape,
    one: Setup,
    levels: tuple[int, ...],
    judged: Callable[[Setup], Verdict],
) -> dict[str, Any]:
    largest = most_that(lambda slots: judged(replace(one, slots=slots)).admit)
    told = sorted({*levels, *(n for n in (largest, largest + 1) if 0 < n <= MOST_SEQUENCES)})
    verdicts = {level: judged(replace(one, slots=level)) for level in told}
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
                "limited_by": verdict.limited_by,
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
    names = tuple(dict.fromkeys(name for level in levels for name in level["terms"]))
    told = next((level for level in levels if not level["admit"]), levels[-1])
    return [
        f"{engine['engine']}: {answer}; each additional request takes about {more}",
        _row(("level", "fits", *names, "needed")),
        *(_level_line(level, names) for level in levels),
        f"  {told['text']}",
        f"  beside weights and KV: {engine['calibration']}",
    ]


def _level_line(level: Mapping[str, Any], names: tuple[str, ...]) -> str:
    sizes = [level["terms"].get(name) for name in names]
    terms = ("" if size is None else size_text(size) for size in sizes)
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


def _cards(hardware_class: str | None, gpu: str | None) -> tuple[Gpu, ...]:
    """Those that were said, as they are sold; else those of the class, or of this box."""
    if gpu is not None:
        size = _parsed("--gpu", size_bytes, gpu)
        return gpu_memory.of_sizes(size) if size else ()
    return device.gpus()() if hardware_class is None else gpu_memory.of_class(hardware_class)


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
