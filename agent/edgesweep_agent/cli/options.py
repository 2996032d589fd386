"""The options of the commands, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from edgesweep_agent.presets import MEANINGS, PRESETS
from edgesweep_agent.workloads.registry import WORKLOADS

from . import values

_QUICK = PRESETS["quick"]
QUICK_BUDGET = str(_QUICK["budget"])
QUICK_LEVELS = ",".join(str(level) for level in _QUICK["levels"])

Url = Annotated[str | None, Option(help="A running server, such as http://127.0.0.1:8080.")]
Plan = Annotated[
    Path | None,
    Option(
        parser=values.path,
        metavar="FILE",
        help="A TOML plan (plan.example.toml), or the name of one in --config.",
    ),
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
Workloads = Annotated[
    str | None,
    Option("--workload", help=f"Request shapes, with commas: {', '.join(WORKLOADS)}."),
]
Prompts = Annotated[
    Path | None,
    Option(
        parser=values.path,
        metavar="FILE",
        help="Replay your own prompts: JSON lines with prompt or messages, or ShareGPT.",
    ),
]
Preset = Annotated[
    str | None,
    Option(help="A starting point: " + "; ".join(f"{k} ({v})" for k, v in MEANINGS.items()) + "."),
]
Sessions = Annotated[int | None, Option(min=1, help="Engine starts per contender.")]
Precision = Annotated[
    float | None,
    Option(
        parser=values.share,
        metavar="SHARE",
        help="End a level once its throughput is known to this share, such as 0.02.",
    ),
]
Arrival = Annotated[
    str | None,
    Option(
        metavar="closed|poisson",
        help="poisson: level = users, each asking --rate times a second (default: closed).",
    ),
]
Rate = Annotated[
    float | None,
    Option(
        parser=values.rate_per_s,
        metavar="NUMBER",
        help="With --arrival poisson: requests per user and s.",
    ),
]
Resume = Annotated[
    bool, Option("--resume", help="Go on with the newest run of this plan that was broken off.")
]
State = Annotated[
    Path | None,
    Option(
        parser=values.path,
        metavar="FOLDER",
        help="Folder of what can be resumed (default: beside the daemon's spool, or in your home).",
    ),
]
PromptTokens = Annotated[int | None, Option(min=1, help="Or: tokens of a prompt.")]
OutputTokens = Annotated[int | None, Option(min=1, help="Or: tokens of an answer.")]
Budget = Annotated[
    str | None,
    Option(
        parser=values.duration_text,
        metavar="TIME",
        help=f"Time for the whole sweep: 90s, 15m, 2h (default with --url: {QUICK_BUDGET}).",
    ),
]
Wait = Annotated[
    float | None,
    Option(
        parser=values.wait_s,
        metavar="TIME",
        help="How long to wait for the server, also while nothing listens: 90s, 15m, 0 "
        "(default: 120s, while it says that it is loading).",
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    Option(parser=values.path, metavar="FILE", help="File with the server's API key."),
]
JsonFile = Annotated[
    Path | None,
    Option(
        "--json",
        parser=values.path,
        metavar="FILE",
        help="Write the run here, anew after every level; - for standard output, at the end.",
    ),
]
Samples = Annotated[
    Path | None,
    Option(
        parser=values.path,
        metavar="FILE",
        help="Write every request here, as JSON lines; - for standard output.",
    ),
]
KeepText = Annotated[bool, Option("--keep-text", help="Keep the answers in the samples.")]
Submit = Annotated[bool, Option("--submit", help="Hand the results to the daemon of --config.")]
Config = Annotated[
    Path | None,
    Option(
        parser=values.path,
        metavar="FILE",
        help="The daemon's TOML file: who this device is, and its socket.",
    ),
]
DryRun = Annotated[
    bool, Option("--dry-run", help="Print what would be measured, and measure nothing.")
]
InspectRoot = Annotated[
    Path,
    Option(
        "--root",
        parser=values.path,
        metavar="FOLDER",
        help="Read a copy of another box's file tree in place of this one's.",
    ),
]

MOST_TOKENS = 10**9
Context = Annotated[
    int, Option(min=1, max=MOST_TOKENS, help="Tokens of one request, prompt and answer.")
]
Reserve = Annotated[
    str, Option(help="Memory that stays free for the application on the box: 2GiB, 512MB.")
]
HardwareClass = Annotated[
    str | None,
    Option("--class", help="Answer for another box: its hardware class, or its memory, as in 8g."),
]
FitGpu = Annotated[
    str | None,
    Option(
        "--gpu",
        metavar="SIZE",
        help="Answer for a box with one graphics card of that size, such as 12GiB; 0 for none.",
    ),
]
FitLevels = Annotated[
    str | None, Option("--levels", help="Also judge these levels, such as 1,4,16.")
]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]

MeterRun = Annotated[
    Path,
    Option(
        "--run",
        parser=values.path,
        metavar="FILE",
        help="The run's JSON, as sweep --json wrote it.",
    ),
]
MeterOffset = Annotated[
    float | None,
    Option(
        "--offset",
        parser=values.offset_s,
        metavar="SECONDS",
        help="Seconds to add to the meter's clock.",
    ),
]
MeterEdge = Annotated[
    str | None,
    Option(
        "--edge",
        metavar="first|WHEN",
        help="Find the rest of the offset, up to 60 s: the step of power is at the first level's "
        "start, or at WHEN.",
    ),
]
MeterStart = Annotated[
    str | None,
    Option("--start", metavar="WHEN", help="When a log with relative times begins."),
]
MeterJson = Annotated[
    Path | None,
    Option(
        "--json",
        parser=values.path,
        metavar="FILE",
        help="Write the run with its figures here; - for standard output.",
    ),
]
