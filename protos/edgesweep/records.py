"""The nouns of edgesweep as frozen records: what is measured, by whom, and what it came to.

Durations are seconds, sizes bytes, instants nanoseconds, each with its unit in the name.
``None`` is "not measured"; a zero is always a measured zero. How records become bytes is
:mod:`edgesweep.codec`'s job.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(Enum):
    """What an envelope carries, from the one never dropped to the first to go."""

    BIRTH = "birth"
    EVENT = "event"
    LEVEL = "level"
    RUN = "run"
    HEARTBEAT = "heartbeat"
    TELEMETRY = "telemetry"


class ClockQuality(Enum):
    """How far the wall clock could be trusted when a record was made."""

    SYNCED = "synced"
    HOLDOVER = "holdover"
    UNSYNCED = "unsynced"


class LevelStatus(Enum):
    """What became of one level; only ``VALID`` levels enter a curve."""

    VALID = "valid"
    FLAGGED = "flagged"
    SKIPPED = "skipped"
    FAILED = "failed"


class RunState(Enum):
    """Where a run stands."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Contender:
    """One engine configuration under test.

    Attributes:
        name: The plan's label for it; not part of its identity.
        engine: ``llama.cpp``, ``vllm``, ... or ``unknown`` for a server that does not say.
        build: Compiler, instruction set or image digest, as far as the engine tells.
        model_sha256: Hash of the weights file; empty where the file cannot be seen.
        slots: Requests the engine serves at once; ``None`` if it does not say.
        context_per_request: Tokens one request may use; ``None`` if it does not say.
        managed: Started by the agent, so that its settings are known rather than guessed.
        settings: Further settings that change what is measured (threads, batch, KV dtype ...).
    """

    name: str
    engine: str
    engine_version: str = ""
    build: str = ""
    model: str = ""
    model_sha256: str = ""
    weight_format: str = ""
    slots: int | None = None
    context_per_request: int | None = None
    managed: bool = False
    launcher: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """SHA-256 (hex) of the canonical form: sorted JSON of all fields but the name."""
        form = {
            "engine": self.engine,
            "engine_version": self.engine_version,
            "build": self.build,
            "model": self.model,
            "model_sha256": self.model_sha256,
            "weight_format": self.weight_format,
            "slots": self.slots,
            "context_per_request": self.context_per_request,
            "managed": self.managed,
            "launcher": self.launcher,
            "settings": dict(self.settings),
        }
        text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Workload:
    """A named request shape, in tokens."""

    name: str
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Device:
    """Who measures: identity, hardware class with its live caps, and the operator's labels."""

    device_id: str
    hardware_class: str = ""
    performance_state: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Birth:
    """The first record of an agent's life: who speaks, and in which connection."""

    device: Device
    started_wall_ns: int
    connection: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something worth knowing that is not a measurement."""

    name: str
    message: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The agent is alive, and this is what it still holds.

    Attributes:
        dropped: By kind, how many records this epoch has dropped so far.
        sensor_up: By sensor, whether it said anything at its last reading.
        troubles: By part (``uplink``, ``spool``, ``certificate``, ``clock``), what is wrong
            with it now, for people.
    """

    uptime_s: float
    spool_rows: int
    spool_bytes: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    sensor_up: Mapping[str, bool] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SensorValue:
    """One sensor value; ``None`` with the reason where the sensor had none."""

    name: str
    unit: str
    value: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What the sensors of a device said at one instant."""

    readings: tuple[SensorValue, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A snapshot of one execution of a sweep plan; the newest of a ``run_id`` stands."""

    run_id: str
    state: RunState
    device: Device
    plan_json: str
    contenders: tuple[Contender, ...]
    started_wall_ns: int
    ended_wall_ns: int | None = None
    n_levels: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Exact statistics of one metric over the successful requests of a level.

    A quantile is ``None`` when ``n`` is under its floor (:mod:`edgesweep.quantiles`).
    """

    n: int
    mean: float
    min: float
    max: float
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """Why a level result is left out of comparisons, with its figure and its bound."""

    name: str
    value: float | None = None
    threshold: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """Whether a level fits, with the arithmetic: what it needs against what there is.

    Attributes:
        limited_by: What makes ``available_bytes`` no larger: a cgroup, ``MemAvailable`` ...
        terms: What ``needed_bytes`` is made of, by name, in bytes.
    """

    admit: bool
    needed_bytes: int
    available_bytes: int
    reserve_bytes: int
    limited_by: str
    terms: tuple[tuple[str, int], ...] = ()

    @property
    def text(self) -> str:
        """The arithmetic in one line, for people."""
        terms = " + ".join(f"{name} {_mib(size)}" for name, size in self.terms)
        room = self.available_bytes - self.reserve_bytes
        sign = "<=" if self.admit else ">"
        return (
            f"{terms} = {_mib(self.needed_bytes)} {sign} {_mib(room)} "
            f"({self.limited_by} {_mib(self.available_bytes)} - reserve {_mib(self.reserve_bytes)})"
        )


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


@dataclass(frozen=True, slots=True)
class LevelResult:
    """What one level came to: one contender, one session, one concurrency.

    It carries its device and contender in full, so that it can be placed in its cell whatever
    else has arrived. ``values`` and ``distributions`` are keyed by the names of
    :mod:`edgesweep.metrics`; ``attributes`` say how it was measured (thermal cell, energy
    boundary, position in the order ...).
    """

    run_id: str
    device: Device
    contender: Contender
    session: int
    workload: Workload
    concurrency: int
    status: LevelStatus
    started_wall_ns: int
    started_mono_ns: int
    attempt: int = 1
    reason: str = ""
    flags: tuple[Flag, ...] = ()
    n_ok: int = 0
    n_failed: int = 0
    failed_by: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    block_output_tokens_per_s: tuple[float, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    verdict: MemoryVerdict | None = None
    window_mono_ns: tuple[int, int] | None = None

    @property
    def window_wall_ns(self) -> tuple[int, int] | None:
        """The span over which rates were taken, as the device's wall clock had it at the start."""
        if self.window_mono_ns is None:
            return None
        start, end = self.window_mono_ns
        offset = self.started_wall_ns - self.started_mono_ns
        return start + offset, end + offset

    @property
    def key(self) -> tuple[str, str, int, str, int, int]:
        """What makes a level unique in the archive."""
        return (
            self.run_id,
            self.contender.id,
            self.session,
            self.workload.name,
            self.concurrency,
            self.attempt,
        )


Record = Birth | Event | LevelResult | Run | Heartbeat | Telemetry
"""Everything an envelope may carry today."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One request measured; a failed request is a sample with a reason, never an exception.

    Attributes:
        reason: Why it failed (``truncated``, ``connection_reset``, ``http_503`` ...), else "".
        detail: What the server said, shortened; for people, never parsed.
        ttft_s: Send to the first chunk that carries text (content, reasoning, tool call).
        ttfr_s: Send to the first choices chunk of any kind: what vLLM's client calls TTFT.
        first_content_s: Send to the first chunk with visible content; ``None`` if none came.
        tpot_s: (last text - first text) / (output_tokens - 1); ``None`` under two tokens.
        e2e_s: Send to the last text-bearing chunk.
        queue_s: Sent later than it should have been, by this much.
        token_source: Who counted: ``usage``, ``timings``, or ``estimate`` (never comparable).
        icl_s: Gaps between text-bearing chunks.
        itl_s: Those gaps spread over the tokens they brought; empty when the stream was buffered.
        part: The part of the level it belongs to (``cold``, ``operator`` ...); "" if it has one.
        chain, step: Place of a request in a conversation; ``None`` outside of one.
        draft_tokens, accepted_tokens: Of speculative decoding, as the engine counted them.
        tool_calls: Arguments of the tool calls, joined; kept only for conversations.
        t_send_ns: Monotonic instant just before the request bytes were written.
        text_ns: Instants of the text-bearing chunks, relative to ``t_send_ns``.
    """

    concurrency: int
    index: int
    ok: bool
    reason: str = ""
    detail: str = ""
    ttft_s: float | None = None
    ttfr_s: float | None = None
    first_content_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    queue_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    token_source: str = ""
    chunks: int = 0
    comments: int = 0
    icl_s: tuple[float, ...] = ()
    itl_s: tuple[float, ...] = ()
    part: str = ""
    chain: int | None = None
    step: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    tool_calls: str = ""
    flags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    finish_reason: str = ""
    text: str = ""
    t_send_ns: int = 0
    t_end_ns: int = 0
    text_ns: tuple[int, ...] = ()
