"""``edgesweep-agent sweep``: measure one server, or what a plan names."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec
import typer
from rich.console import Console

from edgesweep.complaints import readable
from edgesweep.records import LevelStatus
from edgesweep_agent import device
from edgesweep_agent.attach import Patience
from edgesweep_agent.errors import AgentError, UsageError
from edgesweep_agent.plan import AttachedSpec, Shape, SweepPlan
from edgesweep_agent.settings import Settings, load, load_settings
from edgesweep_agent.sweep.files import RunFile, SamplesFile
from edgesweep_agent.sweep.recorder import Keeper, Recorders
from edgesweep_agent.sweep.run import Outcome, Sweep
from edgesweep_agent.sweep.submit import Submitter
from edgesweep_agent.turn import PARENT, end_with, turn
from edgesweep_agent.workloads.registry import QUICK, WORKLOADS

from . import options
from .table import LiveTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep.records import Device


TURN_WAIT_S = 60.0
_MEASURED = frozenset({LevelStatus.VALID, LevelStatus.FLAGGED})


def sweep(  # noqa: PLR0913, PLR0917 - each one is an option of the command line
    url: options.Url = None,
    plan: options.Plan = None,
    model: options.Model = None,
    levels: options.Levels = None,
    requests: options.Requests = None,
    workload: options.WorkloadName = None,
    prompt_tokens: options.PromptTokens = None,
    output_tokens: options.OutputTokens = None,
    budget: options.Budget = None,
    wait: options.Wait = None,
    api_key_file: options.ApiKeyFile = None,
    json_file: options.JsonFile = None,
    samples: options.Samples = None,
    keep_text: options.KeepText = False,
    submit: options.Submit = False,
    config: options.Config = None,
    dry_run: options.DryRun = False,
) -> None:
    """Measure throughput and latency of an inference server at rising concurrency.

    Exit codes: 0 every planned level was measured, or skipped for want of time; 1 something
    failed; 2 usage; 78 a file's content; 130, 143 interrupted, with everything measured kept.
    """
    if submit and config is None:
        raise UsageError("--submit needs --config FILE: the daemon to hand the results to")
    overrides = {"levels": _levels(levels), "requests": requests, "budget": budget}
    shape = _shape(workload, prompt_tokens, output_tokens)
    settings = load_settings(config) if config else None
    chosen = _override(_chosen(url, plan, model, api_key_file, settings), shape, overrides)
    if dry_run:
        _print_plan(chosen)
        return
    files = _files(json_file, samples, keep_text=keep_text)
    if submit and settings is not None:
        files.append(Submitter(settings.control.socket))
    patience = Patience() if wait is None else Patience(loading_s=wait, refused_s=wait)
    with _turn(settings):
        code = _run(chosen, _device(settings), files, patience, keep_text=keep_text)
    raise typer.Exit(code)


def _plan_file(plan: Path, settings: Settings | None) -> Path:
    """A file, or what the daemon's configuration calls by that name."""
    named = settings.plans.get(str(plan)) if settings is not None else None
    return plan if named is None or plan.exists() else named.file


def _chosen(
    url: str | None,
    plan: Path | None,
    model: str | None,
    api_key_file: Path | None,
    settings: Settings | None,
) -> SweepPlan:
    if plan is not None:
        if url is not None or model is not None or api_key_file is not None:
            raise UsageError("give --plan, or --url with its options, not both")
        return load(_plan_file(plan, settings), SweepPlan)
    if url is None:
        raise UsageError("nothing to measure: give --url http://HOST:PORT, or --plan FILE")
    try:
        return _quick(AttachedSpec(url=url, model=model, api_key_file=api_key_file))
    except ValueError as error:
        raise UsageError(f"--{error}") from error


def _quick(contender: AttachedSpec) -> SweepPlan:
    shape = Shape(QUICK.prompt_tokens, QUICK.output_tokens, QUICK.name)
    levels = _levels(options.QUICK_LEVELS) or ()
    return SweepPlan(
        (contender,), name="quick", workload=shape, levels=levels, budget=options.QUICK_BUDGET
    )


def _levels(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"--levels {text!r}: write whole numbers, such as 1,2,4,8") from error


def _shape(name: str | None, prompt: int | None, output: int | None) -> Shape | None:
    if name is not None:
        if name not in WORKLOADS:
            raise UsageError(f"no workload {name!r}; there is {', '.join(WORKLOADS)}")
        if prompt is not None or output is not None:
            raise UsageError("give --workload, or --prompt-tokens and --output-tokens, not both")
        known = WORKLOADS[name]
        return Shape(known.prompt_tokens, known.output_tokens, known.name)
    if prompt is None and output is None:
        return None
    return Shape(prompt or QUICK.prompt_tokens, output or QUICK.output_tokens)


def _override(plan: SweepPlan, shape: Shape | None, values: Mapping[str, object]) -> SweepPlan:
    """The plan with what the command line says instead, checked as a whole again."""
    changed = {name: value for name, value in values.items() if value is not None}
    if shape is not None:
        changed["workload"] = shape
    fields = {name: getattr(plan, name) for name in plan.__struct_fields__} | changed
    try:
        built = SweepPlan(**fields)
        return msgspec.convert(
            msgspec.to_builtins(built, enc_hook=str), SweepPlan, dec_hook=_as_path
        )
    except msgspec.ValidationError as error:
        raise UsageError(readable(str(error))) from error
    except ValueError as error:
        raise UsageError(str(error)) from error


def _as_path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"{kind} is no type of a plan")


def _files(json_file: Path | None, samples: Path | None, *, keep_text: bool) -> list[Keeper]:
    try:
        for path in (json_file, samples):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    raise UsageError(f"{path} is a folder; name a file in it")
        found: list[Keeper] = [] if json_file is None else [RunFile(json_file)]
        return found if samples is None else [*found, SamplesFile(samples, keep_text)]
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; choose another file") from error


def _device(settings: Settings | None) -> Device:
    if settings is None:
        return device.describe("local", {})
    return device.describe(settings.device.id, settings.device.labels)


def _turn(settings: Settings | None) -> AbstractContextManager[None]:
    """The device's turn; a sweep without a configuration knows of no device to share."""
    if settings is None:
        return nullcontext()
    parent = os.environ.get(PARENT)
    if parent is not None:
        end_with(int(parent))
    lock = settings.control.socket.with_name(settings.control.socket.name + ".sweep")
    # One that lost its daemon takes a while to stop its engine.
    return turn(lock, wait_s=TURN_WAIT_S if parent else 0.0)


def _run(
    plan: SweepPlan,
    about: Device,
    files: list[Keeper],
    patience: Patience,
    *,
    keep_text: bool,
) -> int:
    caught: list[int] = []
    with ExitStack() as stack:
        table = stack.enter_context(LiveTable(Console()))
        job = Sweep(plan, about, Recorders((*files, table)), patience, keep_text=keep_text)
        outcome = anyio.run(_until_signal, job, caught)
    problems = [recorder.problem for recorder in files if recorder.problem]
    for line in (*table.failures, *(str(error) for error in outcome.errors), *problems):
        typer.echo(f"edgesweep-agent: {line}", err=True)
    if caught:
        n = sum(level.status in _MEASURED for level in outcome.levels)
        kept = ", ".join(str(f.path) for f in files if isinstance(f, RunFile | SamplesFile))
        where = f" in {kept}" if kept else " (give --json FILE to keep them)"
        levels = "level" if n == 1 else "levels"
        typer.echo(f"interrupted: {n} measured {levels} kept{where}", err=True)
        return 128 + caught[0]
    return max(_exit_code(outcome), 1 if problems else 0)


async def _until_signal(job: Sweep, caught: list[int]) -> Outcome:
    """Run the sweep; the first signal asks it to stop, the second one stops waiting for it."""

    async def listen() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for sign in signals:
                if caught:
                    tasks.cancel_scope.cancel()
                caught.append(int(sign))
                job.stop.set()

    ended: Outcome | AgentError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        try:
            ended = await job.run()
        except AgentError as error:
            ended = error
        tasks.cancel_scope.cancel()
    if isinstance(ended, Outcome):
        return ended
    raise ended or AgentError("stopped at once: the level that was running is not kept")


def _exit_code(outcome: Outcome) -> int:
    if outcome.errors:
        return max(error.exit_code for error in outcome.errors)
    if any(level.status is LevelStatus.FAILED for level in outcome.levels):
        return 1
    missed = [x.concurrency for x in outcome.levels if x.reason == "time_budget"]
    if missed:
        which = ", ".join(str(concurrency) for concurrency in dict.fromkeys(missed))
        typer.echo(f"not measured within the budget: level {which}; --budget gives more", err=True)
    return 0 if any(level.status in _MEASURED for level in outcome.levels) else 1


def _print_plan(plan: SweepPlan) -> None:
    shape = plan.workload.workload()
    typer.echo(
        f"{plan.name}: {shape.name}, {shape.prompt_tokens} prompt "
        f"and {shape.output_tokens} output tokens"
    )
    for spec in plan.contenders:
        typer.echo(f"contender {spec.name or getattr(spec, 'url', '') or spec}")
    for concurrency in plan.levels:
        count = plan.requests_at(concurrency)
        typer.echo(f"level {concurrency:4}: {count} requests, {concurrency} to warm up")
    typer.echo(f"{plan.sessions} session(s), budget {plan.budget or 'none'}")
