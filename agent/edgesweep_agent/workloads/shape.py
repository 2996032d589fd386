"""A workload as a plan describes it: a request shape, and how requests follow one another."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - msgspec resolves the annotation
from typing import Annotated, Literal

import msgspec

from edgesweep.records import Workload

MOST = 2**20
"""Tokens, requests, slots: nobody means more, and a typing error should not hang a box."""
Positive = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Kind = Literal[
    "chat",
    "natural",
    "fanout",
    "agent",
    "pipeline",
    "incident",
    "interference-operator",
    "interference-fanout",
    "replay",
]
_INDEPENDENT = frozenset({"chat", "natural", "replay"})
_WITH_OPENING = frozenset({"fanout", "interference-operator", "interference-fanout"})


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a plan file."""


class Shape(Table, frozen=True):
    """A workload: a request shape in tokens and how requests follow one another.

    Attributes:
        name: Goes into every record; a known name alone is enough in a plan.
        kind: Which of :mod:`edgesweep_agent.workloads` arranges the requests.
        prompt_tokens: Of each request in all; for a fan-out, its own part after the opening.
        output_tokens: Mean; each request's own is seeded within ``spread`` of it.
        shared_tokens: The opening that requests share.
        spread: Equal lengths would lock requests into waves.
        arrival: ``closed``: C requests always in flight. ``poisson``: C users, each asking
            ``rate_per_user_per_s`` times a second on average, whatever is in flight.
        file: The prompts of a ``replay``: JSON lines, or ShareGPT.
    """

    prompt_tokens: Positive = 64
    output_tokens: Positive = 32
    name: str = ""
    kind: Kind = "chat"
    shared_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    spread: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.25
    arrival: Literal["closed", "poisson"] = "closed"
    rate_per_user_per_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    file: Path | None = None

    def __post_init__(self) -> None:
        """Check what types cannot.

        Raises:
            ValueError: an open loop without its rate or of requests that wait for each other, a
                replay without its file, a shared opening without a length.
        """
        if (self.arrival == "poisson") != (self.rate_per_user_per_s is not None):
            raise ValueError('arrival "poisson" needs rate_per_user_per_s, and only it does')
        if (self.kind == "replay") != (self.file is not None):
            raise ValueError('kind "replay" needs file, and only it does')
        if self.arrival == "poisson" and self.kind not in _INDEPENDENT:
            raise ValueError(f'arrival "poisson": the requests of kind "{self.kind}" are not alone')
        if (self.kind in _WITH_OPENING) != (self.shared_tokens > 0):
            raise ValueError("shared_tokens: kinds fanout and interference need it, and only they")

    def workload(self) -> Workload:
        """The shape as a record."""
        name = self.name or f"{self.kind}-{self.prompt_tokens}-{self.output_tokens}"
        if self.arrival == "poisson":
            name += f"@poisson-{self.rate_per_user_per_s:g}"
        return Workload(name, self.prompt_tokens, self.output_tokens)
