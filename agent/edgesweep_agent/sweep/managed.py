"""A contender that we start: guarded while it loads, checked for what was asked, put away."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from edgesweep.durations import seconds
from edgesweep.records import Contender
from edgesweep_agent import attach, memory
from edgesweep_agent.attach import Patience
from edgesweep_agent.core.kv import kv_bytes_per_token
from edgesweep_agent.core.pressure import Limits
from edgesweep_agent.core.startfacts import Asked
from edgesweep_agent.core.startfail import classify
from edgesweep_agent.errors import EngineError, LaunchError, SettingsError
from edgesweep_agent.guard import guard
from edgesweep_agent.launchers.registry import LAUNCHERS
from edgesweep_agent.sensors.files import Files
from edgesweep_agent.servers.base import Surroundings
from edgesweep_agent.servers.registry import SERVERS

from .admission import in_cache
from .attached import told_settings
from .builds import box_of
from .contender import Ready, label
from .footprint import Footprint
from .on_gpus import on_gpus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from edgesweep_agent.core.command import Command
    from edgesweep_agent.core.serverlog import Reported
    from edgesweep_agent.core.startfacts import StartFailure
    from edgesweep_agent.guard import Watch
    from edgesweep_agent.launchers.base import Place, Server
    from edgesweep_agent.plan import ManagedSpec
    from edgesweep_agent.servers.base import ServerKind
    from edgesweep_agent.target import Target

    from .contender import Opening
    from .on_gpus import OnGpus

_log = logging.getLogger(__name__)


@asynccontextmanager
async def managed(spec: ManagedSpec, opening: Opening) -> AsyncIterator[Ready]:
    """Start a contender's servers; they are gone when the context is left.

    Raises:
        LaunchError: one did not start, or is not what was asked for; says why and what to do.
        SettingsError: the plan names what does not exist.
    """
    kind = kind_of(spec)
    place = _placed(spec)
    opening = replace(opening, box=await box_of(spec, opening.box))
    on = await anyio.to_thread.run_sync(on_gpus, spec, opening.box)
    around = await _surroundings(spec, kind, place, opening)
    if on is not None and (there := on.room().total_bytes) is not None:
        around = replace(around, total_bytes=there)
    # Before anything runs: to ask vLLM takes hundreds of megabytes.
    version = kind.read_version(await place.ask(kind.version_command(place.spec)))
    before = opening.box.available().available_bytes
    mapped = in_cache(spec, around.weights_bytes, opening.box.gpu, on)
    running = _Running(spec, opening, Limits(opening.plan.reserve_bytes, mapped), on)
    async with AsyncExitStack() as stack:
        await running.guard_gpus(stack)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgesweep-")))
        for number in range(spec.replicas):
            log = folder / f"server-{number}.log"
            await running.add(stack, place, lambda port: kind.plan(place.spec, port, around), log)
        reported = kind.reported(running.servers[0].log_text())
        _check_got(spec, running.targets[0], reported)
        running.tell_unused(around.weights_bytes)
        footprint = running.footprint(before)
        roots = running.roots()
        yield Ready(
            contender=await _described(spec, running, place, version),
            targets=tuple(running.targets),
            pids=lambda: roots,
            footprint=footprint,
            died=running.died,
            end=running.end,
            kill=running.kill,
            breach=running.breach,
            log=folder / "server-0.log",
            weights_bytes=around.weights_bytes,
            mapped_bytes=mapped,
            cache_off=not (spec.prefix_cache or spec.as_shipped),
            values=_values(running.targets, reported, footprint, opening),
            attributes=_attributes(running.command),
        )
    await running.tell_shortfall()


class _PortTakenError(LaunchError):
    """Between its choice and the server's start another program took the port."""


class _Running:
    """The servers of a contender, each under guard from its start to its end."""

    def __init__(
        self, spec: ManagedSpec, opening: Opening, limits: Limits, on: OnGpus | None
    ) -> None:
        self._spec, self.opening, self._limits = spec, opening, limits
        self._on, self._gpu_before = on, None if on is None else on.free_bytes()
        self._began = time.monotonic()
        self.servers: list[Server] = []
        self.targets: list[Target] = []
        self._guards: list[Watch] = []
        self._commands: list[Command] = []

    @property
    def command(self) -> Command:
        """That of the first; the others differ in their port."""
        return self._commands[0]

    async def guard_gpus(self, stack: AsyncExitStack) -> None:
        """Before the first start: memory of GPUs, where the model goes there.

        Raises:
            LaunchError: they have less left than the reserve as it is.
        """
        if self._on is not None:
            self._guards.append(await stack.enter_async_context(self._on.guard(self.kill)))
        if (why := self.breach()) is not None:
            raise LaunchError(f"contender {label(self._spec)}: {why}", reason="memory_floor")

    async def add(
        self,
        stack: AsyncExitStack,
        place: Place,
        command: Callable[[int], Command],
        log: Path,
    ) -> None:
        """Start one more, and wait until it answers."""

        def commanded(port: int) -> Command:
            self._commands.append(command(port))
            return self._commands[-1]

        try:
            await self._start(stack, place, commanded, log)
        except _PortTakenError as error:
            # Its launcher looks for a free one at each start.
            _log.warning("%s; it is started once more", error)
            del self.servers[-1], self._guards[-1], self._commands[-1]
            log.unlink(missing_ok=True)
            await self._start(stack, place, commanded, log)

    async def _start(
        self, stack: AsyncExitStack, place: Place, command: Callable[[int], Command], log: Path
    ) -> None:
        async with AsyncExitStack() as own:
            server = await own.enter_async_context(place.start(command, log=log))
            self.servers.append(server)
            pids = [one.pid for one in server.pids()]
            guarding = guard(self._limits, pids, self.kill, root=self.opening.box.root)
            self._guards.append(await own.enter_async_context(guarding))
            self.targets.append(await _answering(self._spec, server, self.opening, self.breach))
            await stack.enter_async_context(own.pop_all())

    def roots(self) -> frozenset[int]:
        """The first process of each."""
        return frozenset(pid for server in self.servers for pid in _first(server))

    def footprint(self, before_bytes: int | None) -> Footprint:
        """What they take, of what was available before."""
        box = self.opening.box
        shared = box.gpu == "unified"
        on, gpu_before = self._on, self._gpu_before
        gpu = None if on is None else lambda: on.taken_bytes(gpu_before)
        return Footprint(Files(box.root), self.roots(), before_bytes, is_shared=shared, gpu=gpu)

    def breach(self) -> str | None:
        """Why a guard has ended them, if one has."""
        return next((why for one in self._guards if (why := one.report().breach)), None)

    def died(self) -> str | None:
        """How one of them ended, if it has."""
        ended = (server.exit_text for server in self.servers if server.exit is not None)
        return self.breach() or next(ended, None)

    def end(self) -> StartFailure | None:
        """What the log of the first that ended makes of it."""
        ended = (server for server in self.servers if server.exit is not None)
        ran_s = time.monotonic() - self._began
        found = (_why(self._spec, one, self.opening, ran_s, served=True) for one in ended)
        return next(found, None)

    def kill(self, reason: str) -> None:
        """From the guard's thread: the engine ends now, the agent goes on."""
        _log.error("the engine is ended: %s", reason)
        for server in self.servers:
            for one in server.pids():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(one.pid, signal.SIGKILL)

    def tell_unused(self, weights_bytes: int | None) -> None:
        """Once they answer: a model that did not go where it was reckoned."""
        if self._on is not None and self._on.is_unused(self._gpu_before, weights_bytes):
            _log.warning(
                "%s: no GPU took its weights: a build without CUDA? Say so by gpu_layers = 0, and "
                "its memory is judged by that of the host",
                label(self._spec),
            )

    async def tell_shortfall(self) -> None:
        """Once they are gone: memory that did not come back."""
        found = [("", server.memory) for server in self.servers]
        if self._on is not None:
            found.append((" of GPU memory", await self._on.came_back(self._gpu_before)))
        for kind, back in found:
            if back is not None and not back.complete:
                _log.warning(
                    "%s: %d MiB%s did not come back within %.0f s of its end",
                    label(self._spec),
                    back.shortfall_bytes >> 20,
                    kind,
                    back.waited_s,
                )


def _placed(spec: ManagedSpec) -> Place:
    try:
        return LAUNCHERS[spec.launcher].place(spec)
    except SettingsError as error:
        raise SettingsError(f"contender {label(spec)}: {error}") from error


def kind_of(spec: ManagedSpec) -> ServerKind:
    """The kind of server that a contender runs, which has nothing against its settings.

    Raises:
        SettingsError: there is no such server or launcher, no such model, or a key that it refuses.
    """
    for what, chosen, known in (
        ("launcher", spec.launcher, tuple(LAUNCHERS)),
        ("server", spec.server, tuple(SERVERS)),
    ):
        if chosen not in known:
            have = ", ".join(known)
            raise SettingsError(f"contender {label(spec)}: no {what} {chosen!r}; there is {have}")
    if not spec.model.exists():
        raise SettingsError(f"contender {label(spec)}: model {spec.model} is not there")
    kind = SERVERS[spec.server]
    try:
        kind.check(spec)
    except SettingsError as error:
        raise SettingsError(f"contender {label(spec)}: {error}") from error
    return kind


async def _surroundings(
    spec: ManagedSpec, kind: ServerKind, place: Place, opening: Opening
) -> Surroundings:
    shape = await anyio.to_thread.run_sync(memory.model, spec.model)
    dtype = spec.kv_dtype if spec.engine == "llama.cpp" and spec.kv_dtype else "f16"
    return Surroundings(
        help_text=await place.ask(kind.help_command(place.spec)),
        host=place.host,
        gpu=opening.box.gpu,
        total_bytes=opening.box.available().total_bytes,
        weights_bytes=shape.weight_bytes,
        kv_bytes_per_token=round(kv_bytes_per_token(shape, dtype, dtype)),
    )


async def _answering(
    spec: ManagedSpec, server: Server, opening: Opening, breach: Callable[[], str | None]
) -> Target:
    """The server once it answers."""
    bound_s = start_s(spec, opening)
    patience = Patience(bound_s, bound_s, lambda: server.exit_text)
    began = time.monotonic()
    try:
        target = await attach.attach(
            f"http://127.0.0.1:{server.port}",
            patience=patience,
            waiting=lambda _text, waited_s: opening.waiting("starting the engine", waited_s),
        )
    except EngineError as error:
        if (breached := breach()) is not None:
            text = f"contender {label(spec)}: {breached}"
            raise LaunchError(text, reason="memory_floor") from error
        why = _why(spec, server, opening, time.monotonic() - began)
        kind = _PortTakenError if why.kind == "port_taken" else LaunchError
        raise kind(f"contender {label(spec)}: {why.line}") from error
    return replace(target, sampler=spec.sampler, ready_s=time.monotonic() - began)


def start_s(spec: ManagedSpec, opening: Opening) -> float:
    """How long a start may take: the plan's word, or else what its kind of server takes."""
    told = opening.plan.start_timeout
    return SERVERS[spec.server].start_s(opening.box.gpu) if told is None else seconds(told)


def _why(
    spec: ManagedSpec, server: Server, opening: Opening, waited_s: float, *, served: bool = False
) -> StartFailure:
    asked = Asked(
        server=spec.server,
        model=spec.model.name,
        port=server.port,
        slots=spec.slots,
        context_per_request=spec.context_per_request,
        available_bytes=opening.box.available().available_bytes,
    )
    return classify(server.exit, server.log_text(), asked, waited_s, served=served)


def _check_got(spec: ManagedSpec, target: Target, reported: Reported) -> None:
    """A build may ignore what it was told (ggml-org/llama.cpp#17300: one slot asked, four got)."""
    facts = target.facts
    for what, wanted, got in (
        ("slots", spec.slots, facts.slots or reported.n_slots),
        (
            "context per request",
            spec.context_per_request,
            facts.context_per_request or reported.n_ctx_slot,
        ),
    ):
        if wanted is not None and got is not None and got < wanted:
            raise LaunchError(
                f"contender {label(spec)}: asked for {wanted} {what}, the engine has {got}"
            )


async def _described(spec: ManagedSpec, running: _Running, place: Place, version: str) -> Contender:
    facts = running.targets[0].facts
    per_level = running.opening.plan.policy == "per_level"
    policy = "per_level" if per_level else "as_shipped" if spec.as_shipped else ""
    settings = {
        **told_settings(facts),
        **running.command.settings,
        **place.settings,
        "policy": policy,
    }
    return Contender(
        name=label(spec),
        engine=facts.engine if facts.engine != "unknown" else spec.engine,
        engine_version=version or facts.version,
        build=running.servers[0].build or facts.build,
        model=spec.model.name,
        model_sha256=await anyio.to_thread.run_sync(_sha256, spec.model),
        weight_format=facts.weight_format,
        slots=None if per_level else facts.slots or spec.slots,
        context_per_request=facts.context_per_request or spec.context_per_request,
        managed=True,
        launcher=spec.launcher,
        settings={name: value for name, value in sorted(settings.items()) if value},
    )


def _values(
    targets: list[Target], reported: Reported, footprint: Footprint, opening: Opening
) -> dict[str, float]:
    told = {
        "ready_s": targets[0].ready_s,
        "idle_bytes": footprint.taken_bytes(opening.box.available().available_bytes),
        "kv_reserved_bytes": reported.kv_buffer_bytes,
    }
    return {name: float(value) for name, value in told.items() if value is not None}


def _first(server: Server) -> list[int]:
    """The first of its processes, from which all others descend; none if they are not known."""
    found = sorted(server.pids(), key=lambda one: (one.start_ticks, one.pid))
    return [one.pid for one in found[:1]]


def _attributes(command: Command) -> dict[str, str]:
    return {"dropped_flags": ", ".join(command.dropped)} if command.dropped else {}


def _sha256(path: Path) -> str:
    """Of a file; of a folder, over the names and contents of its weights, in order."""
    digest = hashlib.sha256()
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    for file in files:
        if path.is_dir():
            digest.update(file.name.encode())
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
