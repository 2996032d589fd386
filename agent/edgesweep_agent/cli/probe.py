"""``edgesweep-agent probe``: which engine is behind an address, and what it says of itself."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer resolves the annotation
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from edgesweep_agent import attach
from edgesweep_agent.settings import read_header

if TYPE_CHECKING:
    from edgesweep_agent.engines.base import Facts


def probe(
    url: Annotated[
        str, typer.Argument(help="Address of the server, such as http://127.0.0.1:8080.")
    ],
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the server's API key.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell which engine answers at URL, without asking it to generate anything."""
    key = read_header(api_key_file)

    async def ask() -> Facts:
        _, facts = await attach.look(attach.normalise(url), api_key=key)
        return facts

    facts = anyio.run(ask)
    report = probe_object(facts)
    if as_json:
        typer.echo(json.dumps(report, indent=2))
        return
    for key_, value in report.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        typer.echo(f"{key_:20} {'-' if shown in (None, '') else shown}")


def probe_object(facts: Facts) -> dict[str, Any]:
    """The JSON of a probe; what the server does not say is null."""
    return {
        "engine": facts.engine,
        "version": facts.version or None,
        "model": facts.models[0] if facts.models else None,
        "slots": facts.slots,
        "context_per_request": facts.context_per_request,
        "running": facts.running,
        "waiting": facts.waiting,
        "evidence": list(facts.evidence),
    }
