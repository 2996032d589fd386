"""How fast an engine is at so many requests at once: a small parametric model, without noise.

Throughput follows the universal scalability law, ``X(n) = a n / (1 + s (n - 1) + k n (n - 1))``,
up to the engine's slots, and stays there. The rest follows from it: in a closed loop of ``c``
requests, ``c = rate x time`` (Little). Published curves of llama.cpp and vLLM on one box have this
form, but for mixtures of experts, which gain little from one request to two. Seconds, tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PROMPT_TOKENS, OUTPUT_TOKENS = 512, 128
"""Of a request of ``chat-512-128``."""
_STEPS = 60


@dataclass(frozen=True, slots=True)
class Curve:
    """One engine on one class of hardware.

    Attributes:
        single_per_s: Output tokens a second of one request alone, its prompt included.
        contention: What requests wait for each other: the limit is ``single_per_s / contention``.
        coherency: What each pair costs: above some level, more requests give less.
        slots: Requests that are worked on at once; the others queue.
        prefill_per_s: Prompt tokens a second.
        prefill_wait: By how much of a prompt's time each further request delays a first token.
    """

    single_per_s: float
    contention: float
    coherency: float
    slots: int
    prefill_per_s: float
    prefill_wait: float

    def output_tokens_per_s(self, concurrency: float) -> float:
        """Of all requests together."""
        n = min(concurrency, self.slots)
        return (
            self.single_per_s * n / (1 + self.contention * (n - 1) + self.coherency * n * (n - 1))
        )

    def requests_per_s(self, concurrency: float) -> float:
        """Requests that end in a second."""
        return self.output_tokens_per_s(concurrency) / OUTPUT_TOKENS

    def ttft_s(self, concurrency: float) -> float:
        """Median time to the first token: the prompt, those beside it, and the queue."""
        n = min(concurrency, self.slots)
        queued_s = (concurrency - n) / self.requests_per_s(n)
        return PROMPT_TOKENS / self.prefill_per_s * (1 + self.prefill_wait * (n - 1)) + queued_s

    def e2e_s(self, concurrency: float) -> float:
        """Median time of a request."""
        return concurrency / self.requests_per_s(concurrency)

    def tpot_s(self, concurrency: float) -> float:
        """Median time per output token after the first."""
        rest_s = self.e2e_s(concurrency) - self.ttft_s(concurrency)
        return max(rest_s, 0.01 * self.e2e_s(concurrency)) / (OUTPUT_TOKENS - 1)

    def crossed_by(self, other: Curve, at: float) -> Curve:
        """``other`` with the speed at which the two are equally fast at ``at`` requests."""
        ratio = self.output_tokens_per_s(at) / other.output_tokens_per_s(at)
        return replace(other, single_per_s=other.single_per_s * ratio)


def crossing(a: Callable[[float], float], b: Callable[[float], float], most: float) -> float | None:
    """Where two curves meet between one request and ``most``, by bisection of the logarithm.

    Returns:
        ``None`` if the same one is above at both ends.
    """
    low, high = 1.0, most

    def lead(c: float) -> float:
        return math.log(b(c) / a(c))

    if lead(low) * lead(high) >= 0:
        return None
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if lead(middle) * lead(low) > 0 else (low, middle)
    return math.sqrt(low * high)
