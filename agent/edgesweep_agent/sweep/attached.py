"""A contender that somebody else runs: asked what it is, and what the way to it costs."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from edgesweep.records import Contender
from edgesweep_agent import attach
from edgesweep_agent.errors import EngineError
from edgesweep_agent.sensors.files import Files
from edgesweep_agent.settings import read_header
from edgesweep_agent.watch import listener

from .contender import Ready, label, short
from .footprint import Footprint

if TYPE_CHECKING:
    from edgesweep_agent.engines.base import Facts
    from edgesweep_agent.plan import AttachedSpec
    from edgesweep_agent.target import Target

    from .contender import Opening

_ROUND_TRIPS = 7
_CONNECT_S = 5.0
_OF_A_START = frozenset({"kv_cache_size_tokens", "num_gpu_blocks", "max_total_num_tokens"})
"""What an engine settles anew at each start: figures, not settings."""


async def attached(spec: AttachedSpec, opening: Opening) -> Ready:
    """Wait for all replicas, and describe the contender by the first.

    Raises:
        EngineError: one cannot be measured, or is another configuration than the first.
        UsageError: it has no such model.
    """
    targets = [await _target(spec, url, opening) for url in (spec.url, *spec.replicas)]
    first = targets[0]
    for other in targets[1:]:
        if alike(other.facts) != alike(first.facts) or other.model != first.model:
            raise EngineError(
                f"contender {label(spec)}: {other.url} is not configured as {first.url} is: "
                "replicas of one contender must be"
            )
    files = Files(opening.box.root)
    parts = [await anyio.to_thread.run_sync(listener.attached, one.url, files) for one in targets]
    return Ready(
        contender=_described(spec, targets),
        targets=tuple(targets),
        pids=(pids := listener.together(parts)),
        footprint=Footprint(files, pids() or ()),
        values={"round_trip_s": await round_trip_s(first.url)} if spec.remote else {},
        price=spec.price,
    )


def alike(facts: Facts) -> dict[str, object]:
    """What two servers of one configuration have in common."""
    return {
        "engine": facts.engine,
        "version": facts.version,
        "build": facts.build,
        "slots": facts.slots,
        "context": facts.context_per_request,
        "settings": told_settings(facts),
    }


def told_settings(facts: Facts) -> dict[str, str]:
    """The settings that a server tells, without what is settled anew at each start."""
    return {name: value for name, value in facts.settings.items() if name not in _OF_A_START}


async def round_trip_s(url: str) -> float:
    """Median time to open a connection, which is one round trip.

    Raises:
        EngineError: it cannot be opened any more.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    times = []
    for _ in range(_ROUND_TRIPS):
        began = time.perf_counter()
        try:
            with anyio.fail_after(_CONNECT_S):
                stream = await anyio.connect_tcp(parts.hostname or "", port)
        except (OSError, TimeoutError) as error:
            raise EngineError(f"{url}: no connection for its round trip: {error}") from error
        times.append(time.perf_counter() - began)
        await stream.aclose()
    return median(times)


async def _target(spec: AttachedSpec, url: str, opening: Opening) -> Target:
    target = await attach.attach(
        attach.normalise(url),
        model=spec.model,
        api_key=read_header(spec.api_key_file),
        patience=opening.patience,
        waiting=opening.waiting,
    )
    return replace(target, sampler=spec.sampler)


def _described(spec: AttachedSpec, targets: list[Target]) -> Contender:
    target = targets[0]
    facts = target.facts
    settings = {
        **told_settings(facts),
        # Two servers that say the same of themselves may differ in what they do not say.
        "endpoint": ", ".join(one.url for one in targets),
        "sampler": spec.sampler,
        "replicas": str(len(targets)) if len(targets) > 1 else "",
        "remote": "yes" if spec.remote else "",
    }
    return Contender(
        name=spec.name or short(target.model),
        engine=facts.engine,
        engine_version=facts.version,
        build=facts.build,
        model=short(target.model),
        weight_format=facts.weight_format,
        slots=facts.slots,
        context_per_request=facts.context_per_request,
        settings={name: value for name, value in settings.items() if value},
    )
