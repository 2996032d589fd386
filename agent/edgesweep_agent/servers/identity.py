"""What of a plan goes into a contender's identity, and what must not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgesweep_agent.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from edgesweep_agent.plan import ManagedSpec

_SECRET = re.compile(r"token|secret|password|passwd|api[-_]?key|credential", re.IGNORECASE)
_LEFT_TO_THE_ENGINE = (
    "threads",
    "gpu_layers",
    "batch",
    "ubatch",
    "kv_dtype",
    "kv_bytes",
    "prefix_cache",
    "speculative",
)


def check(spec: ManagedSpec, server: str, engine: str) -> None:
    """Refuse what no server of this engine can do.

    Raises:
        SettingsError: the key, and what to do.
    """
    if spec.engine != engine:
        raise SettingsError(f'server "{server}" is {engine}: write engine = "{engine}"')
    for name in (*spec.environment, *spec.flags):
        if _SECRET.search(name) and not name.lower().endswith(("file", "tokens")):
            raise SettingsError(
                f"{name}: settings go into every record: a managed engine listens on loopback "
                "and needs no secret; leave it out"
            )
    if spec.as_shipped:
        for name in _LEFT_TO_THE_ENGINE:
            if getattr(spec, name):
                raise SettingsError(f"as_shipped leaves {name} to the engine: leave one out")
    elif spec.slots is None:
        raise SettingsError("slots is missing: requests served at once")


def refuse(spec: ManagedSpec, server: str, reasons: Mapping[str, str]) -> None:
    """Refuse the keys that a server does not have.

    Raises:
        SettingsError: the first of them that the plan sets, with what to do instead.
    """
    for name, instead in reasons.items():
        if getattr(spec, name):
            raise SettingsError(f'server "{server}" has no {name}: {instead}')


def own_flags(flags: Mapping[str, str], ours: Iterable[str], server: str) -> tuple[str, ...]:
    """A plan's further flags as arguments; an empty value makes a switch.

    Raises:
        SettingsError: a flag that the agent sets itself, or that is none.
    """
    taken = frozenset(ours)
    arguments: list[str] = []
    for name, value in flags.items():
        if name in taken:
            raise SettingsError(f"flags: {name} is the agent's own to set: leave it out")
        if not name.startswith("-"):
            raise SettingsError(f'flags: {name!r} is no flag of {server}: write "--{name}"')
        arguments += [name, value] if value else [name]
    return tuple(arguments)


def settings(
    spec: ManagedSpec, server: str, pinned: Mapping[str, object], dropped: tuple[str, ...]
) -> dict[str, str]:
    """The contender's settings, sorted by name; what is ``None`` or empty is left out."""
    speculative = spec.speculative
    found: dict[str, object] = {
        "server": server,
        "sampler": spec.sampler,
        "as_shipped": "yes" if spec.as_shipped else None,
        "replicas": spec.replicas if spec.replicas > 1 else None,
        "threads": spec.threads,
        "dropped": ", ".join(sorted(dropped)),
        **({} if spec.as_shipped else {"prefix_cache": "on" if spec.prefix_cache else "off"}),
        **pinned,
        **{f"flags.{name}": value or "set" for name, value in spec.flags.items()},
        **{f"environment.{name}": value for name, value in spec.environment.items()},
    }
    if speculative is not None:
        model = "" if speculative.model is None else f" with {speculative.model.name}"
        found["speculative"] = f"{speculative.method} x {speculative.tokens}{model}"
    return {name: str(value) for name, value in sorted(found.items()) if value not in (None, "")}
