"""``compare``: where one contender overtakes the other, from the archive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from edgesweep.metrics import REGISTRY
from edgesweep_collector.core.pairing import PairingError, pair, problem
from edgesweep_collector.report.facts import MetricDefinition
from edgesweep_collector.report.gather import METRICS, findings
from edgesweep_collector.report.text import render_text

from .options import AsJson, Config, Contenders, Runs, archived_levels

if TYPE_CHECKING:
    from edgesweep_collector.core.pairing import Pair
    from edgesweep_collector.report.facts import Finding

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric", help="Compare by this; may be given again (default: throughput and times)."
    ),
]


def compare(
    config: Config,
    run: Runs = None,
    contender: Contenders = None,
    metric: Metrics = None,
    as_json: AsJson = False,
) -> None:
    """Compare two contenders of one run, or of runs of one hardware class."""
    runs, levels = archived_levels(config, run)
    compared = pair(levels, contender)
    found = findings(compared, _definitions(metric))
    if as_json:
        typer.echo(json.dumps(comparison(runs, compared, found), indent=2, allow_nan=False))
        return
    for finding in found:
        question = problem(compared, finding.metric.name)
        typer.echo(render_text(question, finding.answer) + "\n")


def comparison(
    runs: tuple[str, ...], compared: Pair, found: tuple[Finding, ...]
) -> dict[str, object]:
    """The JSON object of a comparison; answers by metric, in the vectors' keys."""
    return {
        "schema": "edgesweep.compare/1",
        "runs": list(runs),
        "hardware_class": compared.levels[0].device.hardware_class,
        "workload": compared.levels[0].workload.name,
        "contenders": {
            side: {"id": contender.id, "name": contender.name}
            for side, contender in (("A", compared.a), ("B", compared.b))
        },
        "answers": {one.metric.name: {"words": one.words, **one.answer.as_json()} for one in found},
    }


def _definitions(names: list[str] | None) -> tuple[MetricDefinition, ...]:
    if not names:
        return METRICS
    known = {metric.name: metric for metric in METRICS}
    for name in names:
        if name not in REGISTRY:
            raise PairingError(f"no metric {name!r}; there is {', '.join(REGISTRY)}")
    return tuple(
        known.get(name) or MetricDefinition.of(name, name, REGISTRY[name].unit) for name in names
    )
