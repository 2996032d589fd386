"""``edgesweep-agent sweep``: measure one server, or what a plan names."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import typer
from rich.console import Console

from edgesweep.records import LevelStatus
from edgesweep_agent import device
from edgesweep_agent.attach import Patience
from edgesweep_agent.errors import AgentError, UsageError
from edgesweep_agent.sensors.registry import all_sensors, close_all
from edgesweep_agent.sensors.sampler import Sampler
from edgesweep_agent.settings import Settings, load_settings
from edgesweep_agent.sweep.box import Box
from edgesweep_agent.sweep.files import RunFile, SamplesFile
from edgesweep_agent.sweep.journal import Journal, Unfinished, unfinished
from edgesweep_agent.sweep.ledger import plan_json
from edgesweep_agent.sweep.recorder import Keeper, Recorders
from edgesweep_agent.sweep.run import Outcome, Sweep
from edgesweep_agent.sweep.submit import Submitter
from edgesweep_agent.turn import PARENT, end_with, turn

from . import options  # noqa: TC001 - typer reads the annotations
from .choose import Wanted, chosen
from .memory_cost import memory_lines
from .preview import show_plan
from .table import LiveTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.abc import TaskStatus

    from edgesweep.records import Device, LevelResult


TURN_WAIT_S = 60.0
_MEASURED = frozenset({LevelStatus.VALID, LevelStatus.FLAGGED})


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
        show_plan(told)
        return
    about, folder = _device(settings), state or state_folder(settings)
    earlier = unfinished(folder, plan_json(told), about.device_id) if resume else None
    if resume and earlier is None:
        typer.echo("nothing to resume: a new run begins", err=True)
    files = _files(json_file, samples, earlier, keep_text=keep_text)
    keepers: list[Keeper] = [Journal(folder), *files]
    if submit and settings is not None:
        keepers.append(Submitter(settings.control.socket))
    patience = Patience() if wait is None else Patience(loading_s=wait, refused_s=wait)
    with _turn(settings), _box() as box:
        job = Sweep(told, about, Recorders(()), patience, box, keep_text=keep_text, earlier=earlier)
        code = _run(job, keepers)
    raise typer.Exit(code)


def state_folder(settings: Settings | None) -> Path:
    """Where runs are journalled: beside the daemon's spool, or in the user's state folder."""
    if settings is not None:
        return settings.spool.path.parent / "runs"
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local/state") / "edgesweep/runs"


def _files(
    json_file: Path | None, samples: Path | None, earlier: Unfinished | None, *, keep_text: bool
) -> list[Keeper]:
    try:
        for path in (json_file, samples):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    raise UsageError(f"{path} is a folder; name a file in it")
                if path.exists() and not path.is_file():
                    raise UsageError(f"{path} is a device or a pipe; name a file")
        if json_file and samples and json_file.resolve() == samples.resolve():
            raise UsageError(f"--json and --samples both name {samples}; name two files")
        had = [] if earlier is None else list(earlier.finished)
        found: list[Keeper] = [] if json_file is None else [RunFile(json_file, levels=had)]
        if samples is not None:
            found.append(SamplesFile(samples, keep_text, goes_on=earlier is not None))
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; choose another file") from error
    return found


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
            yield Box(gpu=device.gpu_kind(), sensors=sensors, sampler=sampler)
    finally:
        close_all(sensors)


def _run(job: Sweep, keepers: list[Keeper]) -> int:
    caught: list[int] = []
    with ExitStack() as stack:
        table = stack.enter_context(LiveTable(Console()))
        job.recorder = Recorders((*keepers, table))
        outcome = anyio.run(_until_signal, job, caught)
    for line in memory_lines(outcome.levels):
        typer.echo(line)
    problems = [recorder.problem for recorder in keepers if recorder.problem]
    for line in (*table.failures, *(str(error) for error in outcome.errors), *problems):
        typer.echo(f"edgesweep-agent: {line}", err=True)
    if caught:
        n = sum(level.status in _MEASURED for level in outcome.levels)
        kept = ", ".join(str(f.path) for f in keepers if isinstance(f, RunFile | SamplesFile))
        where = f" in {kept}" if kept else ""
        levels = "level" if n == 1 else "levels"
        typer.echo(
            f"interrupted: {n} measured {levels} kept{where}; the same command with --resume "
            "goes on with the next one",
            err=True,
        )
        return 128 + caught[0]
    return max(_exit_code(outcome), 1 if problems else 0)


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

    ended: Outcome | AgentError | None = None
    async with anyio.create_task_group() as tasks:
        # A signal that came before somebody listens would end all without a word.
        await tasks.start(listen)
        try:
            ended = await job.run()
        except AgentError as error:
            ended = error
        tasks.cancel_scope.cancel()
    if isinstance(ended, Outcome):
        return ended
    stopped = ended or AgentError("stopped at once: the level that was running is not kept")
    if caught:
        stopped.exit_code = 128 + caught[0]
    raise stopped


def _signals() -> tuple[signal.Signals, ...]:
    """A terminal that goes away stops a sweep as Ctrl-C does, unless under ``nohup``."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if ignored else (signal.SIGHUP,)))


def _exit_code(outcome: Outcome) -> int:
    if outcome.errors:
        return max(error.exit_code for error in outcome.errors)
    if any(level.status is LevelStatus.FAILED for level in outcome.levels):
        return 1
    missed = [x.concurrency for x in outcome.levels if x.reason == "time_budget"]
    if missed:
        which = ", ".join(str(concurrency) for concurrency in dict.fromkeys(missed))
        typer.echo(f"not measured within the budget: level {which}; --budget gives more", err=True)
    refused = [level for level in outcome.levels if level.reason == "memory"]
    for text in dict.fromkeys(map(_refusal, sorted(refused, key=lambda x: x.concurrency))):
        typer.echo(text, err=True)
    measured = any(level.status in _MEASURED for level in outcome.levels)
    return 0 if measured or len(refused) == len(outcome.levels) else 1


def _refusal(level: LevelResult) -> str:
    why = "" if level.verdict is None else f": {level.verdict.text}"
    return f"does not fit: {level.contender.name}, level {level.concurrency}{why}"
