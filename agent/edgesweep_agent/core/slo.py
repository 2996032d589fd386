"""Whether a request was served well enough: upper bounds on its latencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgesweep.records import Sample


@dataclass(frozen=True, slots=True)
class Slo:
    """Upper bounds in seconds, each included; ``None`` asks for nothing."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    @property
    def asks(self) -> bool:
        """Whether there is any bound at all."""
        return (self.ttft_s, self.tpot_s, self.e2e_s) != (None, None, None)

    def met_by(self, sample: Sample) -> bool:
        """Whether a request kept every bound.

        A failed request kept none. One that was too short to have a TPOT keeps that bound, as
        with vLLM's client; what should have been measured and was not keeps none.
        """
        if not sample.ok:
            return False
        short = sample.output_tokens is not None and sample.output_tokens < 2
        return (
            _within(sample.ttft_s, self.ttft_s)
            and (short or _within(sample.tpot_s, self.tpot_s))
            and _within(sample.e2e_s, self.e2e_s)
        )


def _within(value: float | None, bound: float | None) -> bool:
    return bound is None or (value is not None and value <= bound)
