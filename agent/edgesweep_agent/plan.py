"""A sweep plan: what is measured, on which contenders, at which levels, within what time."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - msgspec resolves the annotation
from typing import Annotated

import msgspec

from edgesweep.records import Workload

from .core.durations import seconds

Positive = Annotated[int, msgspec.Meta(ge=1)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a plan file."""


class Shape(Table, frozen=True):
    """The request shape, in tokens. The name goes into every record."""

    prompt_tokens: Positive = 64
    output_tokens: Positive = 32
    name: str = ""

    def workload(self) -> Workload:
        """The shape as a record."""
        name = self.name or f"chat-{self.prompt_tokens}-{self.output_tokens}"
        return Workload(name, self.prompt_tokens, self.output_tokens)


class AttachedSpec(Table, frozen=True, tag="attached", tag_field="mode"):
    """A server that somebody else runs; its settings can be asked for, not chosen."""

    url: str
    name: str = ""
    model: str | None = None
    api_key_file: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what must not go into a record: the plan does.

        Raises:
            ValueError: the address carries a user, a query or a fragment.
        """
        if any(sign in self.url for sign in "@?#"):
            raise ValueError(
                "url: an address goes into every record: put a secret into a file (api_key_file), "
                "and give the address without user, query and fragment"
            )


class ManagedSpec(Table, frozen=True, tag="managed", tag_field="mode"):
    """A server that the agent starts, with nothing left to a default that could move."""

    model: Path
    slots: Positive
    context_per_request: Positive
    name: str = ""
    engine: str = "llama.cpp"
    server: str = "xllamacpp"
    launcher: str = "process"
    threads: Positive | None = None


ContenderSpec = AttachedSpec | ManagedSpec


class SweepPlan(Table, frozen=True):
    """The whole plan.

    A level has ``requests`` measured requests, or else ``max(min_requests,
    requests_per_stream x concurrency)``: eleven are the least that allow a median. Warm-up
    comes on top. ``budget`` (``120s``, ``45m``, ``2h``) bounds the whole sweep: levels that it
    does not reach are skipped and said to be.
    """

    contenders: tuple[ContenderSpec, ...]
    name: str = "sweep"
    workload: Shape = Shape()
    levels: Annotated[tuple[Positive, ...], msgspec.Meta(min_length=1)] = (1, 2, 4, 8)
    requests: Positive | None = None
    min_requests: Positive = 11
    requests_per_stream: Positive = 3
    sessions: Positive = 1
    budget: str | None = None
    request_timeout: str = "300s"
    start_timeout: str = "300s"

    def __post_init__(self) -> None:
        """Check what types cannot.

        Raises:
            ValueError: levels that do not ascend, names used twice, a duration that is none.
        """
        if tuple(sorted(set(self.levels))) != self.levels:
            raise ValueError(f"levels {list(self.levels)} must ascend, each once")
        if not self.contenders:
            raise ValueError("a plan needs at least one contender")
        names = [spec.name for spec in self.contenders if spec.name]
        if len(set(names)) != len(names):
            raise ValueError(f"contender names {names} must differ")
        for text in (self.budget, self.request_timeout, self.start_timeout):
            if text is not None:
                seconds(text)

    @property
    def budget_s(self) -> float | None:
        """The time budget in seconds, or ``None`` for as long as it takes."""
        return None if self.budget is None else seconds(self.budget)

    def requests_at(self, concurrency: int) -> int:
        """Measured requests of one level in all."""
        if self.requests is not None:
            return self.requests
        return max(self.min_requests, self.requests_per_stream * concurrency)
