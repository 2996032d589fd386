"""A contender made ready: attached to, or started and checked, and described in full."""

from __future__ import annotations

import hashlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from edgesweep.records import Contender
from edgesweep_agent import attach
from edgesweep_agent.attach import Patience, Target
from edgesweep_agent.core.durations import seconds
from edgesweep_agent.errors import EngineError, LaunchError, SettingsError
from edgesweep_agent.launchers.registry import LAUNCHERS
from edgesweep_agent.plan import AttachedSpec, ContenderSpec, ManagedSpec
from edgesweep_agent.servers.registry import COMMANDS, VERSIONS
from edgesweep_agent.settings import read_header

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@dataclass(frozen=True, slots=True)
class Ready:
    """A contender that answers. ``died`` tells how its server ended, if it has."""

    contender: Contender
    target: Target
    died: Callable[[], str | None]


def label(spec: ContenderSpec) -> str:
    """What people call a contender before it is known better."""
    if spec.name:
        return spec.name
    return spec.url if isinstance(spec, AttachedSpec) else spec.model.stem


def planned(spec: ContenderSpec) -> Contender:
    """A contender as its plan describes it, for one that could not be asked."""
    if isinstance(spec, AttachedSpec):
        settings = {"endpoint": spec.url}
        return Contender(label(spec), "unknown", model=spec.model or "", settings=settings)
    return Contender(
        name=label(spec),
        engine=spec.engine,
        model=spec.model.name,
        slots=spec.slots,
        context_per_request=spec.context_per_request,
        managed=True,
        launcher=spec.launcher,
        settings=_settings(spec),
    )


@asynccontextmanager
async def open_contender(
    spec: ContenderSpec,
    *,
    patience: Patience,
    start_timeout: str,
    waiting: Callable[[str, float], None],
) -> AsyncIterator[Ready]:
    """Attach to a contender, or start it; a managed one is gone when the context is left.

    Raises:
        EngineError: it cannot be measured.
        UsageError: it has no such model.
        LaunchError: it did not start, or is not what was asked for.
        SettingsError: its plan names what does not exist.
    """
    if isinstance(spec, AttachedSpec):
        yield await _attached(spec, patience, waiting)
        return
    _check(spec)
    launcher, command = LAUNCHERS[spec.launcher], COMMANDS[spec.server]
    bound_s = seconds(start_timeout)
    async with launcher.start(lambda port: command(spec, port)) as server:
        target = await _started(
            spec, server.port, Patience(bound_s, bound_s, lambda: server.exit_text), waiting
        )
        contender = await _describe_managed(spec, target)
        yield Ready(contender, target, lambda: server.exit_text)


async def _attached(
    spec: AttachedSpec, patience: Patience, waiting: Callable[[str, float], None]
) -> Ready:
    target = await attach.attach(
        attach.normalise(spec.url),
        model=spec.model,
        api_key=read_header(spec.api_key_file),
        patience=patience,
        waiting=waiting,
    )
    facts = target.facts
    contender = Contender(
        name=spec.name or _short(target.model),
        engine=facts.engine,
        engine_version=facts.version,
        build=facts.build,
        model=_short(target.model),
        weight_format=facts.weight_format,
        slots=facts.slots,
        context_per_request=facts.context_per_request,
        # Two servers that say the same of themselves may differ in what they do not say.
        settings={"endpoint": target.url},
    )
    return Ready(contender, target, lambda: None)


async def _started(
    spec: ManagedSpec, port: int, patience: Patience, waiting: Callable[[str, float], None]
) -> Target:
    try:
        target = await attach.attach(
            f"http://127.0.0.1:{port}",
            patience=patience,
            waiting=lambda _text, waited_s: waiting("starting the engine", waited_s),
        )
    except EngineError as error:
        raise LaunchError(f"contender {label(spec)}: {error}") from error
    _check_got(spec, target)
    return target


def _check(spec: ManagedSpec) -> None:
    if not spec.model.is_file():
        raise SettingsError(f"contender {label(spec)}: model {spec.model} is not a file")
    for what, chosen, known in (
        ("launcher", spec.launcher, tuple(LAUNCHERS)),
        ("server", spec.server, tuple(COMMANDS)),
    ):
        if chosen not in known:
            have = ", ".join(known)
            raise SettingsError(f"contender {label(spec)}: no {what} {chosen!r}; there is {have}")


def _check_got(spec: ManagedSpec, target: Target) -> None:
    """A build may ignore what it was told (ggml-org/llama.cpp#17300: one slot asked, four got)."""
    for what, wanted, got in (
        ("slots", spec.slots, target.facts.slots),
        ("context per request", spec.context_per_request, target.facts.context_per_request),
    ):
        if got is not None and got < wanted:
            raise LaunchError(
                f"contender {label(spec)}: asked for {wanted} {what}, the engine has {got}"
            )


async def _describe_managed(spec: ManagedSpec, target: Target) -> Contender:
    digest = await anyio.to_thread.run_sync(_sha256, spec.model)
    return Contender(
        name=label(spec),
        engine=target.facts.engine,
        engine_version=VERSIONS[spec.server](),
        build=target.facts.build,
        model=spec.model.name,
        model_sha256=digest,
        weight_format=target.facts.weight_format,
        slots=target.facts.slots,
        context_per_request=target.facts.context_per_request,
        managed=True,
        launcher=spec.launcher,
        settings=_settings(spec),
    )


def _settings(spec: ManagedSpec) -> dict[str, str]:
    return {} if spec.threads is None else {"threads": str(spec.threads)}


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _short(model: str) -> str:
    """A model's name without the folders of the machine that serves it."""
    return Path(model).name.encode("utf-8", "replace").decode()
