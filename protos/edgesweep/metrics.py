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
    Metric("e2e_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Send to the last text-bearing chunk."),
    Metric("queue_s", "s", Shape.DISTRIBUTION, Better.LOWER,
           "Sent later than scheduled by this much: the client's own delay."),
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
    Metric("peak_in_flight", "1", Shape.SCALAR, Better.NEITHER,
           "Most requests that were in flight at one instant.", integer=True),
)  # fmt: skip

REGISTRY: dict[str, Metric] = {metric.name: metric for metric in _METRICS}
"""Every metric by its name, in the order in which people are shown them."""

QUANTILES = ("p50", "p90", "p95", "p99")
"""The quantiles of a distribution, by the names used in JSON and in InfluxDB fields."""
