"""``simulate``: a fleet that does not exist, for load tests, demonstrations and dashboards."""

from __future__ import annotations

import json
import resource
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
import typer

from edgesweep.delivery import Policy
from edgesweep.durations import seconds
from edgesweep_collector.settings import load
from edgesweep_collector.simulate.classes import CLASSES
from edgesweep_collector.simulate.fleet import MOST_DEVICES, Options, fleet
from edgesweep_collector.simulate.life import last_s_of
from edgesweep_collector.simulate.perform import perform
from edgesweep_collector.simulate.target import dial
from edgesweep_collector.simulate.truth import lines, truth

from . import values
from .options import AsJson, show

if TYPE_CHECKING:
    from edgesweep_collector.simulate.fleet import Fleet
    from edgesweep_collector.simulate.perform import Outcome, Progress

_USUAL_S = 20 * 60.0
_QUEUED = 800
_MOST_RUNS = 10_000
_ALL, _KNOWN = ",".join(CLASSES), ", ".join(CLASSES)

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        parser=values.path,
        metavar="FILE",
        help="The collector's settings: where it is.",
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="HOST:PORT", help="The broker, or the collector (gRPC)."),
]
Transport = Annotated[Literal["mqtt", "grpc"], typer.Option(help="How they deliver.")]
Devices = Annotated[int, typer.Option(min=1, max=MOST_DEVICES, help="How many.")]
Classes = Annotated[str, typer.Option(metavar="A,B", help=f"Their classes, in turn: {_KNOWN}.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides everything, with --start.")]
Start = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="2026-11-30T12:00Z, or 36h (ago); default: to end now."),
]
Duration = Annotated[
    float | None,
    typer.Option(
        parser=values.duration_s,
        metavar="TIME",
        help="How long they live, such as 20m (default).",
    ),
]
Runs = Annotated[
    int | None,
    typer.Option(min=1, max=_MOST_RUNS, metavar="N", help="Or how many sweeps each makes."),
]
Speed = Annotated[
    float,
    typer.Option(
        parser=values.speed,
        metavar="NUMBER",
        help="Their seconds in one of ours; 0: as fast as it goes.",
    ),
]
Telemetry = Annotated[
    float,
    typer.Option(
        parser=values.interval_s,
        metavar="TIME",
        show_default="60s",
        help="How often sensors are told; 0 for never.",
    ),
]
Heartbeat = Annotated[
    float,
    typer.Option(
        parser=values.duration_s,
        metavar="TIME",
        show_default="30s",
        help="How often they say that they are there.",
    ),
]
Regression = Annotated[
    Literal["agent", "date", "none"],
    typer.Option(help="What the planted slowdown comes with, in the middle."),
]
Faults = Annotated[bool, typer.Option("--faults/--no-faults", help="Plant outliers and faults.")]
Anywhere = Annotated[bool, typer.Option("--anywhere", help="Also to another machine's collector.")]


def simulate(  # noqa: PLR0913, PLR0917 -- the options of a command
    config: Config = None,
    to: To = None,
    transport: Transport = "mqtt",
    devices: Devices = 20,
    classes: Classes = _ALL,
    seed: Seed = 1,
    start: Start = None,
    duration: Duration = None,
    runs: Runs = None,
    speed: Speed = 1.0,
    telemetry: Telemetry = 60.0,
    heartbeat: Heartbeat = 30.0,
    regression: Regression = "agent",
    faults: Faults = True,
    anywhere: Anywhere = False,
    as_json: AsJson = False,
) -> None:
    """Deliver the results of devices that do not exist, with known answers planted in them.

    The same seed and start give the same records, byte for byte. Exit code 0 if all that was made
    was acknowledged, 1 if not.
    """
    if runs is not None and duration is not None:
        raise typer.BadParameter("--duration or --runs, not both")
    options = Options(
        seed=seed,
        start_ns=0,
        devices=devices,
        classes=_classes(classes),
        telemetry_s=telemetry,
        heartbeat_s=heartbeat,
        span_s=None if runs else duration or _USUAL_S,
        runs=runs,
        faults=faults,
        regression=regression,
    )
    found = _fleet(options, start, speed, time.time_ns())
    way = dial(transport, None if config is None else load(config), to, anywhere=anywhere)
    if not as_json:
        show(*lines(found))
    _allow_sockets()
    outcome = anyio.run(
        lambda: perform(found, way, speed=speed, policy=_policy(devices, speed), tell=_progress)
    )
    if as_json:
        typer.echo(json.dumps({"truth": truth(found), **_facts(outcome)}, indent=2))
    else:
        typer.echo(_last_line(outcome))
    raise typer.Exit(outcome.exit_code)


def _fleet(options: Options, start: str | None, speed: float, now_ns: int) -> Fleet:
    """The fleet, its beginning such that it ends now unless that is said."""
    span_s = options.span_s
    if span_s is None:
        span_s = max(last_s_of(one) for one in fleet(options).devices)
    early_s = span_s if not speed else span_s - span_s / speed
    start_ns = now_ns - round(max(0.0, early_s) * 1e9)
    if start is not None:
        start_ns = _instant_ns(start, now_ns)
    return fleet(replace(options, start_ns=start_ns, regression_at_s=span_s / 2))


def _classes(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in CLASSES:
            raise typer.BadParameter(f"--classes: no class {name!r}; there is {_KNOWN}")
    if not names or len(set(names)) < len(names):
        raise typer.BadParameter("--classes: name each class once")
    return names


def _instant_ns(text: str, now_ns: int) -> int:
    """A time without a zone is UTC."""
    try:
        return now_ns - round(seconds(text) * 1e9)
    except ValueError:
        pass
    try:
        # Python 3.10 knows no Z.
        then = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise typer.BadParameter(
            f"--start {text!r} is no time: write 36h, 2026-11-30 or 2026-11-30T12:00Z"
        ) from error
    if then.tzinfo is None:
        then = then.replace(tzinfo=timezone.utc)
    return round(then.timestamp()) * 10**9


def _policy(devices: int, speed: float) -> Policy:
    """An agent's, but for a fleet in a hurry: together no more than a broker queues.

    Mosquitto drops what is over ``max_queued_messages`` (1000), and each drop is a resend.
    """
    usual = Policy()
    return usual if speed else replace(usual, window_count=max(1, _QUEUED // devices))


def _allow_sockets() -> None:
    """Each device is a socket: as many as the system lets us have without asking anybody."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _progress(now: Progress) -> None:
    tally = now.tally
    why = f"; {tally.down}" if tally.connected < now.devices and tally.down else ""
    text = (
        f"{tally.connected} of {now.devices} connected, made {tally.made}, acked {tally.acked}, "
        f"resent {tally.resent}, waiting {now.waiting}{why}"
    )
    typer.echo(text, err=True)


def _facts(outcome: Outcome) -> dict[str, object]:
    tally = outcome.tally
    return {
        "made": tally.made,
        "acked": tally.acked,
        "resent": tally.resent,
        "sent_twice": tally.twice,
        "rejected": tally.rejected,
        "refused": sorted(tally.refused),
        "waiting": outcome.waiting,
        "connects": tally.connects,
        "missing_told": outcome.missing_told,
        "missing_untold": outcome.missing_untold,
        "ack_p50_s": outcome.latency_s(0.50),
        "ack_p99_s": outcome.latency_s(0.99),
        "took_s": outcome.took_s,
    }


def _last_line(outcome: Outcome) -> str:
    tally = outcome.tally
    p50, p99 = outcome.latency_s(0.50), outcome.latency_s(0.99)
    waits = "" if p50 is None or p99 is None else f"; ack p50 {p50:.3f} s, p99 {p99:.3f} s"
    refused = f"; refused: {'; '.join(sorted(tally.refused))}" if tally.refused else ""
    return (
        f"made {tally.made} acked {tally.acked} resent {tally.resent} rejected {tally.rejected} "
        f"waiting {outcome.waiting}{waits}{refused}"
    )
