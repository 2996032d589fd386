"""The metrics registry: name, unit, type, direction and meaning of everything a level reports.

JSON keys, InfluxDB fields, dashboards and docs are all driven by it, so that a field never
changes its type and no two places disagree on what a name means.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Shape(Enum):
    """Whether a level has one value of a metric, or one for each request."""

    SCALAR = "scalar"
    DISTRIBUTION = "distribution"


class Better(Enum):
    """Which way is good."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Metric:
    """One registered metric. ``integer`` fixes the type of its InfluxDB field for good."""

    name: str
    unit: str
    shape: Shape
    better: Better
    description: str
    integer: bool = False


_METRICS = (
    Metric("ttft_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Send to the first chunk that carries text; the role chunk does not count."),
    Metric("ttfr_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Send to the first response chunk of any kind: vLLM's TTFT."),
    Metric("first_content_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Send to the first chunk with visible content, reasoning left out."),
    Metric("tpot_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Time per output token after the first: (last text - first text) / (n - 1)."),
    Metric("icl_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Gaps between text-bearing chunks, pooled over the level."),
    Metric("itl_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Gaps between text-bearing chunks spread over the tokens they brought, pooled."),
    Metric("e2e_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Send to the last text-bearing chunk."),
    Metric("queue_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Sent later than scheduled by this much: the client's own delay."),
    Metric("makespan_cold_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Fan-out with an opening never seen: first send to last token, join included."),
    Metric("makespan_warm_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Fan-out whose opening was just seen: first send to last token, join included."),
    Metric("ttft_cold_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "TTFT within fan-outs whose opening was never seen."),
    Metric("ttft_warm_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "TTFT within fan-outs whose opening the engine had seen."),
    Metric("time_to_first_action_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Task start to the end of its first tool call that fits the schema."),
    Metric("task_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "A whole task: first send to the last token of its last step."),
    Metric("step_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "The slowest step of each task, send to last token."),
    Metric("requests_per_s", "1/s", Shape.SCALAR, Better.HIGHER,
           "Requests completed per second of the steady window."),
    Metric("output_tokens_per_s", "1/s", Shape.SCALAR, Better.HIGHER,
           "Output tokens per second of the steady window, all requests together."),
    Metric("total_tokens_per_s", "1/s", Shape.SCALAR, Better.HIGHER,
           "Prompt and output tokens per second of the steady window."),
    Metric("requests_per_s_gross", "1/s", Shape.SCALAR, Better.HIGHER,
           "Requests completed per second from the first send to the last byte."),
    Metric("output_tokens_per_s_gross", "1/s", Shape.SCALAR, Better.HIGHER,
           "Output tokens per second from the first send to the last byte."),
    Metric("total_tokens_per_s_gross", "1/s", Shape.SCALAR, Better.HIGHER,
           "Prompt and output tokens per second from the first send to the last byte."),
    Metric("goodput_per_s", "1/s", Shape.SCALAR, Better.HIGHER,
           "Requests per second of the steady window that met every SLO."),
    Metric("slo_attainment", "1", Shape.SCALAR, Better.HIGHER,
           "Share of the requests that met every SLO; failed ones did not."),
    Metric("offered_per_s", "1/s", Shape.SCALAR, Better.NEITHER,
           "Requests per second that an open loop asked for."),
    Metric("tool_call_valid_share", "1", Shape.SCALAR, Better.HIGHER,
           "Share of the tool calls that fit their schema."),
    Metric("prefix_hit_share", "1", Shape.SCALAR, Better.NEITHER,
           "Share of the shared opening's tokens that the engine took from its cache."),
    Metric("same_text_share", "1", Shape.SCALAR, Better.HIGHER,
           "Share of the answers whose text is the same with the opening cold and warm."),
    Metric("acceptance_share", "1", Shape.SCALAR, Better.HIGHER,
           "Share of the drafted tokens that speculative decoding accepted."),
    Metric("tpot_before_s", "s", Shape.SCALAR, Better.LOWER,
           "Interference: median TPOT of the session already there, before the other load."),
    Metric("tpot_during_s", "s", Shape.SCALAR, Better.LOWER,
           "Interference: median TPOT of the session already there, during the other load."),
    Metric("tpot_after_s", "s", Shape.SCALAR, Better.LOWER,
           "Interference: median TPOT of the session already there, after the other load."),
    Metric("stall_max_s", "s", Shape.SCALAR, Better.LOWER,
           "Interference: longest gap between tokens of the session already there."),
    Metric("recovery_s", "s", Shape.SCALAR, Better.LOWER,
           "Interference: end of the other load until the session's TPOT is back within 10 %."),
    Metric("newcomer_ttft_s", "s", Shape.SCALAR, Better.LOWER,
           "Interference: median TTFT of the requests that arrived in the middle."),
    Metric("cost_per_million_output_tokens", "1", Shape.SCALAR, Better.LOWER,
           "What a million output tokens cost at the contender's prices, prompts included."),
    Metric("round_trip_s", "s", Shape.SCALAR, Better.NEITHER,
           "Median time to open a connection to a remote contender."),
    Metric("ready_s", "s", Shape.SCALAR, Better.LOWER,
           "Engine start to its first answer."),
    Metric("idle_w", "W", Shape.SCALAR, Better.LOWER,
           "Power with the engine loaded and idle."),
    Metric("idle_bytes", "B", Shape.SCALAR, Better.LOWER,
           "Memory taken by the engine loaded and idle.", integer=True),
    Metric("power_w", "W", Shape.SCALAR, Better.LOWER,
           "Mean power over the steady window."),
    Metric("energy_j_per_token", "J", Shape.SCALAR, Better.LOWER,
           "Energy of the steady window per output token of it."),
    Metric("energy_j_per_task", "J", Shape.SCALAR, Better.LOWER,
           "Energy of the whole level per task of it."),
    Metric("memory_peak_bytes", "B", Shape.SCALAR, Better.LOWER,
           "Most memory that the engine took away from the device meanwhile.", integer=True),
    Metric("memory_available_min_bytes", "B", Shape.SCALAR, Better.HIGHER,
           "Least memory that was available meanwhile.", integer=True),
    Metric("kv_reserved_bytes", "B", Shape.SCALAR, Better.LOWER,
           "KV cache that the engine reserved, by its own word.", integer=True),
    Metric("kv_used_share", "1", Shape.SCALAR, Better.NEITHER,
           "Highest share of the KV cache in use meanwhile."),
    Metric("bytes_per_request", "B", Shape.SCALAR, Better.LOWER,
           "Memory of each additional simultaneous request at the stated context, as reckoned.",
           integer=True),
    Metric("swap_in_bytes", "B", Shape.SCALAR, Better.LOWER,
           "Memory read back from swap meanwhile, the whole device.", integer=True),
    Metric("refault_bytes", "B", Shape.SCALAR, Better.LOWER,
           "File pages (weights, as a rule) evicted and read again meanwhile.", integer=True),
    Metric("temperature_max_c", "C", Shape.SCALAR, Better.LOWER,
           "Highest temperature of any zone meanwhile."),
    Metric("throttled_share", "1", Shape.SCALAR, Better.LOWER,
           "Share of the time in which the hardware held itself back."),
    Metric("foreign_cpu_share", "1", Shape.SCALAR, Better.LOWER,
           "Share of all cores taken by neither the engine nor the client."),
    Metric("engine_running_peak", "1", Shape.SCALAR, Better.NEITHER,
           "Most requests that the engine said it was working on.", integer=True),
    Metric("engine_waiting_peak", "1", Shape.SCALAR, Better.LOWER,
           "Most requests that the engine said were waiting.", integer=True),
    Metric("engine_output_tokens_per_s", "1/s", Shape.SCALAR, Better.HIGHER,
           "Output tokens per second by the engine's own counter, whole requests only."),
    Metric("busy_slots_per_decode", "1", Shape.SCALAR, Better.NEITHER,
           "Mean number of requests in one forward pass, by the engine's own counters."),
    Metric("preemptions", "1", Shape.SCALAR, Better.LOWER,
           "Requests that the engine threw out and began again.", integer=True),
    Metric("warmup_bursts", "1", Shape.SCALAR, Better.NEITHER,
           "Bursts of warm-up until two agreed.", integer=True),
    Metric("window_s", "s", Shape.SCALAR, Better.NEITHER,
           "Length of the steady window: in flight >= 0.95 of the level's concurrency."),
    Metric("duration_s", "s", Shape.SCALAR, Better.NEITHER,
           "First send to last byte of the measured requests."),
    Metric("prompt_tokens", "1", Shape.SCALAR, Better.NEITHER,
           "Prompt tokens of the successful requests, as the engine counted them.",
           integer=True),
    Metric("output_tokens", "1", Shape.SCALAR, Better.NEITHER,
           "Output tokens of the successful requests, as the engine counted them.",
           integer=True),
    Metric("cached_tokens", "1", Shape.SCALAR, Better.NEITHER,
           "Prompt tokens that the engine took from a cache.", integer=True),
    Metric("client_cpu_s", "s", Shape.SCALAR, Better.NEITHER,
           "Processor time of the load generator while it measured."),
    Metric("client_lag_max_s", "s", Shape.SCALAR, Better.NEITHER,
           "The most that the load generator's own timers were late while it measured."),
    Metric("client_lag_p99_s", "s", Shape.SCALAR, Better.NEITHER,
           "How late the load generator's own timers were, but for one time in a hundred."),
    Metric("client_cpu_share", "1", Shape.SCALAR, Better.NEITHER,
           "Share of one core that the load generator took while it measured."),
    Metric("peak_in_flight", "1", Shape.SCALAR, Better.NEITHER,
           "Most requests that were in flight at one instant.", integer=True),
)  # fmt: skip

REGISTRY: dict[str, Metric] = {metric.name: metric for metric in _METRICS}
"""Every metric by its name, in the order in which people are shown them."""

QUANTILES = ("p50", "p90", "p95", "p99")
"""The quantiles of a distribution, by the names used in JSON and in InfluxDB fields."""
