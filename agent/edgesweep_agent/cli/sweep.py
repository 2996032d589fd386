"""``edgesweep-agent sweep``: measure one server, or what a plan names."""

from __future__ import annotations

import math
import os
import signal
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import anyio
import typer
from rich.console import Console

from edgesweep_agent import device
from edgesweep_agent.attach import Patience
from edgesweep_agent.errors import ProgramError, UsageError
from edgesweep_agent.sensors.registry import all_sensors, close_all
from edgesweep_agent.sensors.sampler import Sampler
from edgesweep_agent.settings import Settings, load_settings
from edgesweep_agent.sweep.box import Box
from edgesweep_agent.sweep.files import (
    STREAM,
    Output,
    RunFile,
    RunStream,
    SamplesFile,
    SamplesStream,
)
from edgesweep_agent.sweep.journal import Journal, Unfinished, unfinished
from edgesweep_agent.sweep.ledger import plan_json
from edgesweep_agent.sweep.recorder import Keeper, Recorders
from edgesweep_agent.sweep.run import Outcome, Sweep
from edgesweep_agent.sweep.submit import Submitter
from edgesweep_agent.turn import PARENT, end_with, turn
from edgesweep_common.outfile import STANDARD_OUTPUT, place

from . import options  # noqa: TC001 - typer reads the annotations
from .choose import Wanted, chosen
from .ending import exit_code, interrupted, remarks
from .memory_cost import memory_lines
from .preview import show_plan
from .table import LiveTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.abc import TaskStatus

    from edgesweep.records import Device


TURN_WAIT_S = 60.0


class StoppedAtOnce(ProgramError):  # noqa: N818 - an end, named as one
    """By a second signal, in the middle of a level."""


def sweep(  # noqa: PLR0913, PLR0917 - each one is an option of the command line
    url: options.Url = None,
    plan: options.Plan = None,
    preset: options.Preset = None,
    model: options.Model = None,
    levels: options.Levels = None,
    requests: options.Requests = None,
    sessions: options.Sessions = None,
    precision: options.Precision = None,
    workload: options.Workloads = None,
    prompts: options.Prompts = None,
    prompt_tokens: options.PromptTokens = None,
    output_tokens: options.OutputTokens = None,
    arrival: options.Arrival = None,
    rate: options.Rate = None,
    budget: options.Budget = None,
    wait: options.Wait = None,
    api_key_file: options.ApiKeyFile = None,
    json_file: options.JsonFile = None,
    samples: options.Samples = None,
    keep_text: options.KeepText = False,
    submit: options.Submit = False,
    config: options.Config = None,
    resume: options.Resume = False,
    state: options.State = None,
    dry_run: options.DryRun = False,
) -> None:
    """Measure throughput and latency of an inference server at rising concurrency.

    Exit codes: 0 every planned level was measured, or skipped because it cannot fit or for want
    of time; 1 something failed; 2 usage; 78 a file's content; 130, 143 interrupted, with
    everything measured kept.
    """
    if submit and config is None:
        raise UsageError("--submit needs --config FILE: the daemon to hand the results to")
    settings = load_settings(config) if config else None
    own = {"requests": requests, "sessions": sessions, "precision": precision, "budget": budget}
    wanted = Wanted(
        workload, prompts, prompt_tokens, output_tokens, arrival, rate, preset, levels, values=own
    )
    told = chosen(
        wanted, url=url, plan=plan, model=model, api_key_file=api_key_file, settings=settings
    )
    if dry_run:
        anyio.run(show_plan, told, Box(gpu=device.gpu_kind(), gpus=device.gpus()))
        return
    about, folder = _device(settings), state or state_folder(settings)
    _check_state(folder)
    earlier = unfinished(folder, plan_json(told), about.device_id) if resume else None
    if resume and earlier is None:
        typer.echo("nothing to resume: a new run begins", err=True)
    files = _files(json_file, samples, earlier, keep_text=keep_text)
    keepers: list[Keeper] = [Journal(folder), *files]
    if submit and settings is not None:
        keepers.append(Submitter(settings.control.socket))
    patience = _patience(wait, told.budget_s)
    with _turn(settings), _box() as box:
        job = Sweep(told, about, Recorders(()), patience, box, keep_text=keep_text, earlier=earlier)
        code = _run(job, keepers, files)
    raise typer.Exit(code)


def state_folder(settings: Settings | None) -> Path:
    """Where runs are journalled: beside the daemon's spool, or in the user's state folder.

    Raises:
        UsageError: Nobody knows where the user's home is.
    """
    if settings is not None:
        return settings.spool.path.parent / "runs"
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local/state") / "edgesweep/runs"
    except RuntimeError as error:
        raise UsageError(
            f"{error}: the run's journal goes there; name a folder with --state FOLDER"
        ) from error


def _check_state(folder: Path) -> None:
    """Before anything is measured: a run that cannot be journalled cannot be resumed.

    Raises:
        UsageError: Nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder, prefix=".") as probe:
            probe.write(b"0")
            probe.flush()
    except OSError as error:
        raise UsageError(
            f"{folder}: {error.strerror}: the run's journal goes there; name a folder that can "
            "be written with --state FOLDER"
        ) from error


def _patience(wait: float | None, budget_s: float | None) -> Patience:
    """What is waited for without a word of the user ends with the time budget."""
    bound_s = math.inf if budget_s is None else budget_s
    usual = Patience()
    return Patience(
        loading_s=min(usual.loading_s, bound_s) if wait is None else wait,
        refused_s=usual.refused_s if wait is None else wait,
        answer_s=min(usual.answer_s, bound_s),
    )


def _files(
    json_file: Path | None, samples: Path | None, earlier: Unfinished | None, *, keep_text: bool
) -> list[Output]:
    run_to = _placed("--json", json_file)
    samples_to = _placed("--samples", samples)
    if run_to is not None and run_to == samples_to:
        both = "standard output" if run_to == STANDARD_OUTPUT else str(samples)
        raise UsageError(f"--json and --samples both name {both}; name two files")
    had = [] if earlier is None else list(earlier.finished)
    found: list[Output] = []
    if run_to is not None:
        to_stream = run_to == STANDARD_OUTPUT
        found.append(RunStream(sys.stdout, had) if to_stream else RunFile(run_to, had))
    if samples_to == STANDARD_OUTPUT:
        found.append(SamplesStream(sys.stdout, keep_text))
    elif samples_to is not None:
        found.append(_samples_file(samples_to, keep_text, goes_on=earlier is not None))
    return found


def _placed(option: str, path: Path | None) -> Path | None:
    if path is None or path == STANDARD_OUTPUT:
        return path
    return place(option, path, make_folder=True)


def _samples_file(path: Path, keep_text: bool, *, goes_on: bool) -> SamplesFile:
    try:
        return SamplesFile(path, keep_text, goes_on=goes_on)
    except OSError as error:
        raise UsageError(f"--samples {path}: {error.strerror}; choose another file") from error


def _device(settings: Settings | None) -> Device:
    if settings is None:
        return _described("local", {})
    return _described(settings.device.id, settings.device.labels)


def _described(device_id: str, labels: dict[str, str]) -> Device:
    """The device, and which agent measured on it: a run's file travels without an envelope."""
    about = device.describe(device_id, labels)
    return replace(about, attributes={**about.attributes, "agent_version": version("edgesweep")})


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


@contextmanager
def _box() -> Iterator[Box]:
    """This device with its sensors; the programs that some are end with the sweep."""
    sensors = all_sensors()
    try:
        with Sampler(sensors) as sampler:
            yield Box(gpu=device.gpu_kind(), gpus=device.gpus(), sensors=sensors, sampler=sampler)
    finally:
        close_all(sensors)


def _run(job: Sweep, keepers: list[Keeper], files: list[Output]) -> int:
    caught: list[int] = []
    taken = any(one.place == STREAM for one in files)
    finished = () if job.earlier is None else job.earlier.finished
    names = [spec.name for spec in job.plan.contenders if spec.name]
    table = LiveTable(Console(stderr=taken), finished, names)
    job.recorder = Recorders((*keepers, table))
    try:
        with table:
            outcome = anyio.run(_until_signal, job, caught)
    except ProgramError as error:
        if not caught:
            raise
        raise _stopped(error, interrupted(table.levels, files), caught[0]) from error
    finally:
        for one in files:
            if isinstance(one, RunStream):
                one.end()
    for line in memory_lines(outcome.levels):
        typer.echo(line, err=taken)
    problems = [recorder.problem for recorder in keepers if recorder.problem]
    for line in (*table.failures, *(str(error) for error in outcome.errors), *problems):
        typer.echo(f"edgesweep-agent: {line}", err=True)
    if caught:
        typer.echo(interrupted(outcome.levels, files), err=True)
        return 128 + caught[0]
    for line in remarks(outcome.levels):
        typer.echo(line, err=True)
    return max(exit_code(outcome), 1 if problems else 0)


def _stopped(error: ProgramError, kept: str, sign: int) -> ProgramError:
    """What ended a sweep that was told to stop, with what is kept of it, as the command's end."""
    text = kept if isinstance(error, StoppedAtOnce) else f"{error}; {kept}"
    stopped = ProgramError(text)
    stopped.exit_code = 128 + sign
    return stopped


async def _until_signal(job: Sweep, caught: list[int]) -> Outcome:
    """Run the sweep; the first signal asks it to stop, the second one stops waiting for it."""

    async def listen(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*_signals()) as signals:
            task_status.started()
            async for sign in signals:
                if caught:
                    tasks.cancel_scope.cancel()
                caught.append(int(sign))
                job.stop.set()

    ended: Outcome | ProgramError | None = None
    async with anyio.create_task_group() as tasks:
        # A signal that came before somebody listens would end all without a word.
        await tasks.start(listen)
        try:
            ended = await job.run()
        except ProgramError as error:
            ended = error
        tasks.cancel_scope.cancel()
    if isinstance(ended, Outcome):
        return ended
    raise ended or StoppedAtOnce


def _signals() -> tuple[signal.Signals, ...]:
    """A terminal that goes away stops a sweep as Ctrl-C does, unless under ``nohup``."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if ignored else (signal.SIGHUP,)))
