"""A sweep plan: what is measured, on which contenders, at which levels, within what time."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - msgspec resolves the annotation
from typing import Annotated, Literal

import msgspec

from edgesweep.durations import seconds
from edgesweep.sizes import size_bytes

from .workloads.registry import WORKLOADS, enough
from .workloads.shape import Positive, Shape, Table

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Level = Annotated[int, msgspec.Meta(ge=1, le=4096)]
"""More sockets than that are a load test of the kernel."""


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
        roots = [url.rstrip("/") for url in (self.url, *self.replicas)]
        if len(set(roots)) < len(roots):
            raise ValueError("replicas: each must be another server than url and the others")


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
    kv_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    prefix_cache: bool = False
    as_shipped: bool = False
    sampler: Literal["greedy", "default"] = "greedy"
    speculative: Speculative | None = None
    replicas: Positive = 1
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    flags: dict[str, str] = msgspec.field(default_factory=dict)

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


_NATURAL = frozenset({"natural", "agent"})
"""Kinds whose answers say what the model wants to, and stop where it wants to."""


class Slo(Table, frozen=True):
    """What a request must keep to count as good: upper bounds in seconds."""

    ttft_s: Seconds | None = None
    tpot_s: Seconds | None = None
    e2e_s: Seconds | None = None


class SweepPlan(Table, frozen=True):
    """The whole plan.

    A level has ``requests`` measured requests, or else ``max(min_requests,
    requests_per_stream x concurrency)``: eleven are the least that allow a median. Warm-up
    comes on top.

    Attributes:
        workloads: Known names, or shapes.
        policy: ``fixed``: one deployable configuration for all levels. ``per_level``: the engine
            is started anew for each level, with as many slots; an envelope.
        order: ``shuffled``: an ascending scout pass finds what can be admitted, then the levels
            come in a seeded order, so that heat and drift do not look like concurrency.
            ``ascending``: without a scout, for a quick look.
        precision: End a level once the half-width of its throughput's 95 % interval is below
            this share; it then has up to ten times the requests, and never fewer.
        sessions: Engine starts per contender, in AB, BA, AB order.
        second_pass: Measure the level inside the bracket of a crossing as well.
        seed: Of orders, prompts' lengths and arrivals; else drawn, and recorded.
        thermal: ``soaked``: a load before the first level until the temperature stands still.
        ambient_c: Of the room, for the record.
        reserve: What the application on this device needs for itself, and never gets to lack.
        start_timeout: For a managed engine to answer its first completion; without, what its kind
            of server takes (``servers``: vLLM on a CPU 900 s, all others 300 s).
        budget: Bounds the whole sweep (``120s``, ``45m``, ``2h``): levels that it does not reach
            are skipped and said to be.
    """

    contenders: tuple[ContenderSpec, ...]
    name: str = "sweep"
    workloads: Annotated[tuple[str | Shape, ...], msgspec.Meta(min_length=1)] = ("chat-64-32",)
    policy: Literal["fixed", "per_level"] = "fixed"
    levels: Annotated[tuple[Level, ...], msgspec.Meta(min_length=1)] = (1, 2, 4, 8)
    order: Literal["shuffled", "ascending"] = "shuffled"
    requests: Positive | None = None
    min_requests: Positive = 11
    requests_per_stream: Positive = 3
    precision: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    sessions: Positive = 1
    second_pass: bool = False
    seed: int | None = None
    thermal: Literal["fresh", "soaked"] = "fresh"
    ambient_c: float | None = None
    slo: Slo = Slo()
    reserve: str = "512MiB"
    budget: str | None = None
    request_timeout: str = "300s"
    start_timeout: str | None = None

    def __post_init__(self) -> None:
        """Check what types cannot.

        Raises:
            ValueError: levels that do not ascend, names used twice, a duration or size that is
                none, a workload that nobody knows, slots that the policy leaves open or not.
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
        size_bytes(self.reserve)
        shapes = self.shapes()
        called = [shape.workload().name for shape in shapes]
        if len(set(called)) != len(called):
            raise ValueError(f"workloads {called} must differ")
        self._check_policy()

    def _check_policy(self) -> None:
        forced = {shape.kind for shape in self.shapes()} - _NATURAL
        if forced and any(getattr(spec, "speculative", None) for spec in self.contenders):
            raise ValueError(
                "speculative decoding is measured with natural text and natural stops: workloads "
                f"of kind {' and '.join(sorted(forced))} have neither; take "
                '"chat-natural-512-128" or "agent-8x"'
            )
        managed = [spec for spec in self.contenders if isinstance(spec, ManagedSpec)]
        if len({spec.as_shipped for spec in managed}) > 1:
            raise ValueError(
                "as_shipped contenders are compared with each other alone: they need a plan of "
                "their own"
            )
        for spec in managed:
            if spec.as_shipped:
                continue
            if (self.policy == "per_level") == (spec.slots is not None):
                raise ValueError(
                    f"contender {spec.name or spec.model.stem}: slots is "
                    + (
                        "the level's own number with policy per_level: leave it out"
                        if spec.slots is not None
                        else "missing: requests served at once"
                    )
                )
        if self.policy == "per_level" and len(managed) < len(self.contenders):
            raise ValueError("policy per_level starts engines: attached contenders have none")

    def shapes(self) -> tuple[Shape, ...]:
        """The workloads in full.

        Raises:
            ValueError: a name that nobody knows.
        """
        return tuple(_known(one) if isinstance(one, str) else one for one in self.workloads)

    @property
    def budget_s(self) -> float | None:
        """The time budget in seconds, or ``None`` for as long as it takes."""
        return None if self.budget is None else seconds(self.budget)

    @property
    def reserve_bytes(self) -> int:
        """What the application keeps for itself."""
        return size_bytes(self.reserve)

    def requests_at(self, concurrency: int, shape: Shape | None = None) -> int:
        """Measured requests of one level: all of them, or the fewest with ``precision``.

        Bursts and tasks are several requests each: where the plan does not say how many, there
        are enough for a median of them.
        """
        if self.requests is not None:
            return self.requests
        least = max(self.min_requests, self.requests_per_stream * concurrency)
        return least if shape is None else enough(shape, concurrency, least)

    def most_requests_at(self, concurrency: int, shape: Shape | None = None) -> int:
        """Requests after which a level ends whatever its precision."""
        least = self.requests_at(concurrency, shape)
        return least if self.precision is None else 10 * least


def _known(name: str) -> Shape:
    if name not in WORKLOADS:
        raise ValueError(f"no workload {name!r}; there is {', '.join(WORKLOADS)}")
    return WORKLOADS[name]
