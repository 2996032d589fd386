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

from edgesweep.records import Contender
from edgesweep_agent import attach, memory
from edgesweep_agent.attach import Patience
from edgesweep_agent.core.durations import seconds
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

from .admission import needed_in_cache
from .attached import told_settings
from .contender import Ready, label
from .footprint import Footprint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from edgesweep_agent.core.command import Command
    from edgesweep_agent.core.serverlog import Reported
    from edgesweep_agent.guard import Watch
    from edgesweep_agent.launchers.base import Place, Server
    from edgesweep_agent.plan import ManagedSpec
    from edgesweep_agent.servers.base import ServerKind
    from edgesweep_agent.target import Target

    from .contender import Opening

_log = logging.getLogger(__name__)


@asynccontextmanager
async def managed(spec: ManagedSpec, opening: Opening) -> AsyncIterator[Ready]:
    """Start a contender's servers; they are gone when the context is left.

    Raises:
        LaunchError: one did not start, or is not what was asked for; says why and what to do.
        SettingsError: the plan names what does not exist.
    """
    kind = _kind(spec)
    place = _placed(spec)
    around = await _surroundings(spec, kind, place, opening)
    # Before anything runs: to ask vLLM takes hundreds of megabytes.
    version = kind.read_version(await place.ask(kind.version_command(place.spec)))
    before = opening.box.available().available_bytes
    mapped = needed_in_cache(spec, around.weights_bytes, opening.box.gpu)
    running = _Running(spec, opening, Limits(opening.plan.reserve_bytes, mapped))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgesweep-")))
        for number in range(spec.replicas):
            log = folder / f"server-{number}.log"
            await running.add(stack, place, lambda port: kind.plan(place.spec, port, around), log)
        reported = kind.reported(running.servers[0].log_text())
        _check_got(spec, running.targets[0], reported)
        footprint = running.footprint(before)
        roots = running.roots()
        yield Ready(
            contender=await _described(spec, running, place, version),
            targets=tuple(running.targets),
            pids=lambda: roots,
            footprint=footprint,
            died=running.died,
            kill=running.kill,
            breach=running.breach,
            log=folder / "server-0.log",
            weights_bytes=around.weights_bytes,
            mapped_bytes=mapped,
            cache_off=not (spec.prefix_cache or spec.as_shipped),
            values=_values(running.targets, reported, footprint, opening),
            attributes=_attributes(running.command),
        )
    running.tell_shortfall()


class _Running:
    """The servers of a contender, each under guard from its start to its end."""

    def __init__(self, spec: ManagedSpec, opening: Opening, limits: Limits) -> None:
        self._spec, self.opening, self._limits = spec, opening, limits
        self.servers: list[Server] = []
        self.targets: list[Target] = []
        self._guards: list[Watch] = []
        self._commands: list[Command] = []

    @property
    def command(self) -> Command:
        """That of the first; the others differ in their port."""
        return self._commands[0]

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

        server = await stack.enter_async_context(place.start(commanded, log=log))
        self.servers.append(server)
        pids = [one.pid for one in server.pids()]
        guarding = guard(self._limits, pids, self.kill, root=self.opening.box.root)
        self._guards.append(await stack.enter_async_context(guarding))
        self.targets.append(await _answering(self._spec, server, self.opening, self.breach))

    def roots(self) -> frozenset[int]:
        """The first process of each."""
        return frozenset(pid for server in self.servers for pid in _first(server))

    def footprint(self, before_bytes: int | None) -> Footprint:
        """What they take, of what was available before."""
        box = self.opening.box
        shared = box.gpu == "unified"
        return Footprint(Files(box.root), self.roots(), before_bytes, is_shared=shared)

    def breach(self) -> str | None:
        """Why a guard has ended them, if one has."""
        return next((why for one in self._guards if (why := one.report().breach)), None)

    def died(self) -> str | None:
        """How one of them ended, if it has."""
        ended = (server.exit_text for server in self.servers if server.exit is not None)
        return self.breach() or next(ended, None)

    def kill(self, reason: str) -> None:
        """From the guard's thread: the engine ends now, the agent goes on."""
        _log.error("the engine is ended: %s", reason)
        for server in self.servers:
            for one in server.pids():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(one.pid, signal.SIGKILL)

    def tell_shortfall(self) -> None:
        """Once they are gone: memory that did not come back."""
        for server in self.servers:
            if server.memory is not None and not server.memory.complete:
                _log.warning(
                    "%s: %d MiB did not come back within %.0f s of its end",
                    label(self._spec),
                    server.memory.shortfall_bytes >> 20,
                    server.memory.waited_s,
                )


def _placed(spec: ManagedSpec) -> Place:
    try:
        return LAUNCHERS[spec.launcher].place(spec)
    except SettingsError as error:
        raise SettingsError(f"contender {label(spec)}: {error}") from error


def _kind(spec: ManagedSpec) -> ServerKind:
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
    bound_s = seconds(opening.plan.start_timeout)
    patience = Patience(bound_s, bound_s, lambda: server.exit_text)
    began = time.monotonic()
    try:
        target = await attach.attach(
            f"http://127.0.0.1:{server.port}",
            patience=patience,
            waiting=lambda _text, waited_s: opening.waiting("starting the engine", waited_s),
        )
    except EngineError as error:
        if (why := breach()) is not None:
            raise LaunchError(f"contender {label(spec)}: {why}", reason="memory_floor") from error
        why = _why(spec, server, opening, time.monotonic() - began)
        raise LaunchError(f"contender {label(spec)}: {why}") from error
    return replace(target, sampler=spec.sampler, ready_s=time.monotonic() - began)


def _why(spec: ManagedSpec, server: Server, opening: Opening, waited_s: float) -> str:
    asked = Asked(
        server=spec.server,
        model=spec.model.name,
        port=server.port,
        slots=spec.slots,
        context_per_request=spec.context_per_request,
        available_bytes=opening.box.available().available_bytes,
    )
    return classify(server.exit, server.log_text(), asked, waited_s).line


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
    found = sorted(server.pids(), key=lambda one: one.start_ticks)
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
