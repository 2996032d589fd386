"""The steady window of a level, and what was emitted within it. Instants in nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from edgesweep.records import Sample

_SECOND_NS = 1_000_000_000
_STEADY_PERCENT = 95

Emission = tuple[int, float]
"""An instant and the tokens that came at it."""


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time: after ``start_ns``, up to and including ``end_ns``."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / _SECOND_NS

    def holds(self, t_ns: int) -> bool:
        """Whether something at this instant counts."""
        return self.start_ns < t_ns <= self.end_ns

    def block(self, t_ns: int, blocks: int) -> int:
        """Which of so many equal parts holds the instant, from 0; it must be in the window."""
        return -(-(t_ns - self.start_ns) * blocks // (self.end_ns - self.start_ns)) - 1


def whole_window(samples: Iterable[Sample]) -> Window | None:
    """First send to last end of all requests; ``None`` if that is no time at all."""
    flights = list(_flights(samples))
    if not flights:
        return None
    window = Window(min(start for start, _ in flights), max(end for _, end in flights))
    return window if window.seconds else None


def steady_window(samples: Iterable[Sample], concurrency: int) -> Window | None:
    """From the first instant with 95 % of the level in flight to the last.

    Ramp and drain weigh more the higher the level is, so that they would bend its curve. Failed
    requests loaded the engine and count as in flight.
    """
    threshold = -(-_STEADY_PERCENT * concurrency // 100)
    up_ns = down_ns = None
    before = 0
    for t_ns, in_flight in _crossings(samples):
        if up_ns is None and in_flight >= threshold:
            up_ns = t_ns
        if before >= threshold > in_flight:
            down_ns = t_ns
        before = in_flight
    if up_ns is None or down_ns is None or up_ns == down_ns:
        return None
    return Window(up_ns, down_ns)


def open_window(samples: Iterable[Sample]) -> Window | None:
    """First arrival to last end of an open loop; ``None`` if that is no time at all.

    An open loop has no level that it holds: what is in flight is its outcome.
    """
    sent = [sample for sample in samples if sample.t_send_ns < sample.t_end_ns]
    if not sent:
        return None
    return Window(min(map(due_ns, sent)), max(sample.t_end_ns for sample in sent))


def due_ns(sample: Sample) -> int:
    """When a request should have been sent."""
    return sample.t_send_ns - round((sample.queue_s or 0.0) * _SECOND_NS)


def last_text_ns(sample: Sample) -> int:
    """When the last token of an answered request came."""
    return sample.t_send_ns + (sample.text_ns[-1] if sample.text_ns else 0)


def peak_in_flight(samples: Iterable[Sample]) -> int:
    """Most requests under way at one instant; one that ends as another starts makes room."""
    return max((in_flight for _, in_flight in _crossings(samples)), default=0)


def emissions(sample: Sample) -> Iterator[Emission]:
    """A request's output tokens, spread evenly over its text-bearing chunks."""
    tokens = (sample.output_tokens or 0) / max(1, len(sample.text_ns))
    return ((sample.t_send_ns + offset_ns, tokens) for offset_ns in sample.text_ns)


def _flights(samples: Iterable[Sample]) -> Iterator[tuple[int, int]]:
    """Send and end of each request that was sent at all."""
    return (
        (sample.t_send_ns, sample.t_end_ns)
        for sample in samples
        if sample.t_send_ns < sample.t_end_ns
    )


def _crossings(samples: Iterable[Sample]) -> Sequence[tuple[int, int]]:
    """Each instant at which the number in flight changes, with the new number."""
    changes: dict[int, int] = {}
    course: list[tuple[int, int]] = []
    for start_ns, end_ns in _flights(samples):
        changes[start_ns] = changes.get(start_ns, 0) + 1
        changes[end_ns] = changes.get(end_ns, 0) - 1
    in_flight = 0
    for t_ns in sorted(changes):
        in_flight += changes[t_ns]
        course.append((t_ns, in_flight))
    return course
