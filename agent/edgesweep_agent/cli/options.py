"""The options of ``sweep``, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from edgesweep_agent.workloads.registry import QUICK, WORKLOADS

QUICK_BUDGET = "120s"
QUICK_LEVELS = "1,2,4,8,16,32"

Url = Annotated[str | None, Option(help="A running server, such as http://127.0.0.1:8080.")]
Plan = Annotated[
    Path | None, Option(help="A TOML plan (plan.example.toml), or the name of one in --config.")
]
Model = Annotated[str | None, Option(help="The server's model, if it has several.")]
Levels = Annotated[
    str | None, Option(help=f"Requests in flight, ascending (default: {QUICK_LEVELS}).")
]
Requests = Annotated[
    int | None,
    Option(
        min=1,
        help="Measured requests of a level, warm-up on top "
        "(default: the larger of 11 and 3 x level).",
    ),
]
WorkloadName = Annotated[
    str | None,
    Option("--workload", help=f"A request shape: {', '.join(WORKLOADS)} (default: {QUICK.name})."),
]
PromptTokens = Annotated[int | None, Option(min=1, help="Or: tokens of a prompt.")]
OutputTokens = Annotated[int | None, Option(min=1, help="Or: tokens of an answer.")]
Budget = Annotated[
    str | None,
    Option(help=f"Time for the whole sweep: 90s, 15m, 2h (default with --url: {QUICK_BUDGET})."),
]
Wait = Annotated[
    float | None,
    Option(
        min=0,
        help="Seconds to wait for the server, also while nothing listens "
        "(default: 120, while it says that it is loading).",
    ),
]
ApiKeyFile = Annotated[Path | None, Option(help="File with the server's API key.")]
JsonFile = Annotated[
    Path | None, Option("--json", help="Write the run here, anew after every level.")
]
Samples = Annotated[Path | None, Option(help="Write every request here, as JSON lines.")]
KeepText = Annotated[bool, Option("--keep-text", help="Keep the answers in the samples.")]
Submit = Annotated[bool, Option("--submit", help="Hand the results to the daemon of --config.")]
Config = Annotated[
    Path | None,
    Option(help="The daemon's TOML file: who this device is, and its socket."),
]
DryRun = Annotated[
    bool, Option("--dry-run", help="Print what would be measured, and measure nothing.")
]
