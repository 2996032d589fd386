"""``edgesweep-agent serve``: the daemon."""

from __future__ import annotations

import os
import sys
from pathlib import Path  # noqa: TC003 - typer resolves the annotation
from typing import Annotated

import typer

from edgesweep_agent.plan import SweepPlan
from edgesweep_agent.settings import load, load_settings

from . import values


def serve(
    config: Annotated[
        Path,
        typer.Option(
            "--config",
            parser=values.path,
            metavar="FILE",
            help="The daemon's TOML file; see agent.example.toml.",
        ),
    ],
) -> None:
    """Keep the spool, deliver it to the collector, and run the plans of the configuration.

    Runs until SIGTERM or SIGINT. What was measured stays in the spool until the collector's
    archive has it, across restarts of either side.
    """
    for plan in load_settings(config).plans.values():
        load(plan.file, SweepPlan)
    file = str(config.absolute())
    # Python looks for modules where it is started, and a daemon should hold no folder.
    os.chdir("/")
    os.execv(sys.executable, [sys.executable, "-m", "edgesweep_agent", file])  # noqa: S606
