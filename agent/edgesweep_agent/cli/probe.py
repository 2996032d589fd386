"""``edgesweep-agent probe``: which engine is behind an address, and what it says of itself."""

from __future__ import annotations

import json
from itertools import chain, repeat
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from edgesweep_agent import attach
from edgesweep_agent.core.counters import COUNTED
from edgesweep_agent.settings import read_header

from . import values
from .options import ApiKeyFile  # noqa: TC001 - typer resolves the annotation

if TYPE_CHECKING:
    from edgesweep_agent.attach import Seen

_ONLY_IF_SAID = frozenset({"metrics_reason", "warnings", "hint"})


def probe(
    url: Annotated[
        str, typer.Argument(help="Address of the server, such as http://127.0.0.1:8080.")
    ],
    model: Annotated[
        str | None,
        typer.Option(help="Its model, where it has several; a router may load it for the answer."),
    ] = None,
    api_key_file: ApiKeyFile = None,
    wait: Annotated[
        float,
        typer.Option(
            parser=values.wait_s,
            metavar="TIME",
            show_default="0",
            help="How long to wait for a server that does not listen, or loads: 90s, 15m.",
        ),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell which engine answers at URL, without asking it to generate anything."""
    key = read_header(api_key_file)

    async def ask() -> Seen:
        root, patience = attach.normalise(url), attach.Patience(wait, wait)
        return await attach.look(root, model=model, api_key=key, patience=patience)

    report = probe_object(anyio.run(ask))
    if as_json:
        typer.echo(json.dumps(report, indent=2))
        return
    for line in table(report):
        typer.echo(line)


def probe_object(seen: Seen) -> dict[str, Any]:
    """The JSON of a probe; what the server does not say is null."""
    facts, told = seen.facts, seen.counters
    usage = told.kv_cache_usage
    return {
        "engine": facts.engine,
        "version": facts.version or None,
        "model": seen.model,
        "slots": facts.slots,
        "context_per_request": facts.context_per_request,
        "running": _whole(told.running),
        "waiting": _whole(told.waiting),
        "kv_cache_usage": {
            "max": None if usage is None else usage.max,
            "mean": None if usage is None else usage.mean,
        },
        "counters": {name: _whole(told.counted.get(name)) for name in COUNTED},
        "evidence": list(facts.evidence),
        "weight_format": facts.weight_format or None,
        "settings": dict(facts.settings),
        "metrics_state": told.metrics_state.value,
        "metrics_reason": told.reason or None,
        "warnings": list(told.warnings),
        "hint": facts.hint or None,
    }


def table(report: dict[str, Any]) -> list[str]:
    """A report for people: a line a fact, a dash for what the server does not say."""
    lines = []
    for name, value in report.items():
        cells = _cells(value)
        if cells or name not in _ONLY_IF_SAID:
            labels = chain([name], repeat(""))
            # The labels have no end.
            told = zip(labels, cells or ["-"], strict=False)
            lines += [f"{label:20} {cell}" for label, cell in told]
    return lines


def _cells(value: object) -> list[str]:
    if isinstance(value, dict):
        return [f"{name} {part}" for name, part in value.items() if part is not None]
    if isinstance(value, list):
        return [str(part) for part in value]
    return [] if value is None else [str(value)]


def _whole(value: float | None) -> float | None:
    """A count as JSON has it: 4, not 4.0."""
    return int(value) if value is not None and value.is_integer() else value
