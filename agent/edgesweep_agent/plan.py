"""A sweep plan: what is measured, on which contenders, at which levels, within what time."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - msgspec resolves the annotation
from typing import Annotated, Literal

import msgspec

from edgesweep.records import Workload

from .core.durations import seconds

Positive = Annotated[int, msgspec.Meta(ge=1)]


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
    kind: Literal["chat", "fanout", "agent", "interference", "replay"] = "chat"
    shared_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    spread: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.25
    arrival: Literal["closed", "poisson"] = "closed"
    rate_per_user_per_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    file: Path | None = None

    def __post_init__(self) -> None:
        """Check what types cannot.

        Raises:
            ValueError: an open loop without its rate, a replay without its file.
        """
        if (self.arrival == "poisson") != (self.rate_per_user_per_s is not None):
            raise ValueError('arrival "poisson" needs rate_per_user_per_s, and only it does')
        if (self.kind == "replay") != (self.file is not None):
            raise ValueError('kind "replay" needs file, and only it does')

    def workload(self) -> Workload:
        """The shape as a record."""
        name = self.name or f"chat-{self.prompt_tokens}-{self.output_tokens}"
        if self.arrival == "poisson":
            name += f"@poisson-{self.rate_per_user_per_s:g}"
        return Workload(name, self.prompt_tokens, self.output_tokens)


class Price(Table, frozen=True):
    """What a remote contender costs, per million tokens."""

    input_per_million: Annotated[float, msgspec.Meta(ge=0)]
    output_per_million: Annotated[float, msgspec.Meta(ge=0)]
    currency: str = "USD"


class AttachedSpec(Table, frozen=True, tag="attached", tag_field="mode"):
    """A server that somebody else runs; its settings can be asked for, not chosen.

    Attributes:
        url: Its root.
        replicas: Roots of further servers of the same configuration: requests go round robin.
        remote: Reached over a network: its round trip is measured and said.
        price: What its tokens cost.
        sampler: ``greedy`` for fairness, or the engine's ``default`` as a contender of its own.
    """

    url: str
    name: str = ""
    model: str | None = None
    api_key_file: Path | None = None
    replicas: tuple[str, ...] = ()
    remote: bool = False
    price: Price | None = None
    sampler: Literal["greedy", "default"] = "greedy"

    def __post_init__(self) -> None:
        """Refuse what must not go into a record: the plan does.

        Raises:
            ValueError: the address carries a user, a query or a fragment.
        """
        if any(sign in url for url in (self.url, *self.replicas) for sign in "@?#"):
            raise ValueError(
                "url: an address goes into every record: put a secret into a file (api_key_file), "
                "and give the address without user, query and fragment"
            )


class Speculative(Table, frozen=True):
    """Speculative decoding: measured with natural text and natural stops.

    Attributes:
        method: The engine's own word: ``draft-simple``, ``ngram-simple``, ``draft-mtp``, ``ngram``.
        model: The draft model, where the method has one.
        tokens: Drafted at a time.
    """

    method: str
    model: Path | None = None
    tokens: Positive = 3


class ManagedSpec(Table, frozen=True, tag="managed", tag_field="mode"):
    """A server that the agent starts, with nothing left to a default that could move.

    Attributes:
        model: A GGUF file, or a folder in Hugging Face's layout.
        slots: Requests served at once (``-np``, ``--max-num-seqs``); with the ``per_level``
            policy the level's own number, and left out here.
        context_per_request: Tokens that one request may use.
        server: What is started: ``xllamacpp``, ``llama-server``, ``vllm``.
        launcher: Where it runs: ``process``, ``container``.
        program: The server's executable (for ``vllm`` the Python that has it); else from PATH.
        image: The container's image.
        runtime: The container's command: ``docker`` or ``podman``.
        kv_dtype: Of keys and values: ``f16``, ``q8_0``, ``bf16``, ``fp8`` ...
        kv_bytes: Size of vLLM's pool; else what the slots need at their full context.
        batch, ubatch: Prompt tokens of a step, logical and physical (llama.cpp), or of a
            scheduler's step (vLLM: ``batch``).
        prefix_cache: Reuse of shared openings; off unless a workload is about it.
        as_shipped: The engine's own defaults, caches and samplers included.
        replicas: So many servers behind round robin.
        environment, flags: Further settings, recorded as part of the contender.
    """

    model: Path
    slots: Positive | None = None
    context_per_request: Positive | None = None
    name: str = ""
    engine: Literal["llama.cpp", "vllm"] = "llama.cpp"
    server: str = "xllamacpp"
    launcher: str = "process"
    program: Path | None = None
    image: str = ""
    runtime: Path | None = None
    threads: Positive | None = None
    gpu_layers: Annotated[int, msgspec.Meta(ge=0)] | None = None
    batch: Positive | None = None
    ubatch: Positive | None = None
    kv_dtype: str = ""
    kv_bytes: Positive | None = None
    prefix_cache: bool = False
    as_shipped: bool = False
    sampler: Literal["greedy", "default"] = "greedy"
    speculative: Speculative | None = None
    replicas: Positive = 1
    environment: dict[str, str] = {}
    flags: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Check what types cannot.

        Raises:
            ValueError: a container without an image, or settings beside ``as_shipped``.
        """
        if (self.launcher == "container") != bool(self.image):
            raise ValueError('launcher "container" needs image, and only it does')
        if self.as_shipped and (self.slots or self.context_per_request):
            raise ValueError("as_shipped leaves slots and context_per_request to the engine")
        if not self.as_shipped and self.context_per_request is None:
            raise ValueError("context_per_request is missing: tokens that one request may use")


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
