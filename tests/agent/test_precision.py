from __future__ import annotations

import random

import pytest

from edgesweep.student import t_quantile
from edgesweep_agent.core.precision import settled, throughput

S = 1_000_000_000


def waves(seconds, concurrency=1, weight=1.0):
    """Completions in waves of C, so far apart."""
    t_ns, completions = 0, []
    for gap_s in seconds:
        t_ns += round(gap_s * S)
        completions += [(t_ns, weight)] * concurrency
    return completions


def test_a_constant_rate_is_known_exactly():
    known = throughput(waves([0.5] * 11, 4, weight=10.0), 4)
    assert (known.per_s, known.half_width) == (80.0, 0.0)


def test_the_interval_is_students():
    # Ten batches of one completion each, after the opening one; alternating, so nothing is added.
    known = throughput(waves([9.0] + [1.0, 0.5] * 5), 1)
    deviation = 0.5 * (10 / 9) ** 0.5
    assert known.per_s == pytest.approx(1.5)
    expected = t_quantile(0.975, 9) * deviation / 10**0.5 / 1.5
    assert known.half_width == pytest.approx(expected)


@pytest.mark.parametrize(("n", "known"), [(0, False), (10, False), (43, False), (44, True)])
def test_batches_have_at_least_c_completions(n, known):
    """C = 4: the opening wave and ten batches."""
    assert (throughput(waves([1.0] * n), 4) is not None) == known


def test_the_opening_wave_does_not_count():
    steady = waves([0.5] * 22, 2)
    slow_start = [(t_ns + 60 * S, weight) for t_ns, weight in steady]
    assert throughput(slow_start, 2) == throughput(steady, 2)


def test_a_batch_cuts_no_wave():
    known = throughput(waves([1.0] * 37, 8), 8)
    assert (known.per_s, known.half_width) == (8.0, 0.0)


def test_a_drift_is_not_settled_by_its_small_spread():
    """A device that slows down: neighbours resemble each other and tell less than ten batches."""
    drift = waves([1.0 + 0.02 * n for n in range(11)])
    mixed = list(drift)
    gaps = [1.0 + 0.02 * n for n in range(1, 11)]
    random.Random(3).shuffle(gaps)
    mixed = waves([1.0, *gaps])
    assert throughput(drift, 1).half_width > 1.5 * throughput(mixed, 1).half_width


def test_never_before_the_floor():
    completions = waves([0.5] * 20)
    assert not settled(completions, 1, half_width=0.5, floor=21)
    assert settled(completions, 1, half_width=0.5, floor=20)


def test_a_noisy_rate_settles_when_there_is_enough_of_it():
    noise = random.Random(7)
    completions = waves([noise.expovariate(1.0) for _ in range(4000)])
    assert not settled(completions[:100], 1, half_width=0.05, floor=0)
    assert settled(completions, 1, half_width=0.05, floor=0)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    noise = random.Random(11)
    hits = 0
    for _ in range(300):
        known = throughput(waves([noise.expovariate(2.0) for _ in range(220)]), 2)
        hits += abs(known.per_s - 2.0) <= known.half_width * known.per_s
    assert hits / 300 > 0.9


@pytest.mark.parametrize(
    "completions",
    [[(5, 1.0)] * 30, waves([1.0] * 30, weight=0.0)],
    ids=["one instant", "no weight"],
)
def test_no_time_or_no_weight_is_unknown(completions):
    assert throughput(completions, 1) is None
    assert not settled(completions, 1, half_width=1.0, floor=0)


def test_order_does_not_matter():
    completions = waves([0.4, 0.6] * 11)
    assert throughput(completions[::-1], 1) == throughput(completions, 1)
