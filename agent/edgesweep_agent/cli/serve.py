"""``edgesweep-agent serve``: the daemon."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer resolves the annotation
from typing import Annotated

import typer

from edgesweep import logs
from edgesweep_agent.plan import SweepPlan
from edgesweep_agent.settings import load, load_settings


def serve(
    config: Annotated[
        Path, typer.Option("--config", help="The daemon's TOML file; see agent.example.toml.")
    ],
) -> None:
    """Keep the spool, deliver it to the collector, and run the plans of the configuration.

    Runs until SIGTERM or SIGINT. What was measured stays in the spool until the collector's
    archive has it, across restarts of either side.
    """
    settings = load_settings(config)
    for plan in settings.plans.values():
        load(plan.file, SweepPlan)
    logs.to_stderr(settings.log.level)
    # Imported late: the transports are heavy, and a bad configuration should say so at once.
    from edgesweep_agent import daemon  # noqa: PLC0415

    raise typer.Exit(daemon.serve(settings, config))
