"""A contender made ready: attached to, or started and checked, and described in full."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edgesweep.records import Contender
from edgesweep_agent.plan import AttachedSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgesweep_agent.attach import Patience
    from edgesweep_agent.core.processes import Identity
    from edgesweep_agent.core.startfacts import StartFailure
    from edgesweep_agent.plan import ContenderSpec, Price, SweepPlan
    from edgesweep_agent.target import Target
    from edgesweep_agent.watch.listener import EnginePids

    from .box import Box
    from .footprint import Footprint


@dataclass(frozen=True, slots=True)
class Ready:
    """A contender that answers.

    Attributes:
        targets: Its replicas; one as a rule.
        pids: The engine's first processes on this device, if they are known.
        died: Tells how its server ended, if it has.
        end: What its log makes of that end, likewise.
        kill: Ends it at once, from any thread; nothing where it is not ours to end.
        breach: Tells why the memory guard has ended it, if it has.
        log: What it writes, if we started it.
        footprint: What it takes of the memory.
        born: The processes that it had when it was opened; empty where they are not known.
        weights_bytes: Of its model, if the file can be seen.
        mapped_bytes: File cache that it cannot do without.
        cache_off: We started it with its prefix cache off.
        values: What every level of this start says of the engine: ``ready_s``, ``idle_bytes`` ...
        price: What its tokens cost.
    """

    contender: Contender
    targets: tuple[Target, ...]
    pids: EnginePids
    footprint: Footprint
    born: frozenset[Identity] = frozenset()
    died: Callable[[], str | None] = lambda: None
    end: Callable[[], StartFailure | None] = lambda: None
    kill: Callable[[str], None] = lambda _reason: None
    breach: Callable[[], str | None] = lambda: None
    log: Path | None = None
    weights_bytes: int | None = None
    mapped_bytes: int = 0
    cache_off: bool = False
    values: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    price: Price | None = None

    @property
    def target(self) -> Target:
        """The first replica, which is asked what all are like."""
        return self.targets[0]

    @property
    def slots(self) -> int | None:
        """Requests that all replicas work on at once."""
        told = [target.facts.slots for target in self.targets]
        return sum(slots for slots in told if slots) if all(told) else None


@dataclass(frozen=True, slots=True)
class Opening:
    """What opening a contender needs to know.

    Attributes:
        waiting: Told what is waited for, and how long already.
    """

    plan: SweepPlan
    box: Box
    patience: Patience
    waiting: Callable[[str, float], None]


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
        settings={"server": spec.server},
    )


def short(model: str) -> str:
    """A model's name without the folders of the machine that serves it."""
    return Path(model).name.encode("utf-8", "replace").decode()
