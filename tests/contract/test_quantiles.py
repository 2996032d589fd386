from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesweep.quantiles import FLOORS, distribution, quantile


@pytest.mark.parametrize(("p", "floor"), FLOORS.items())
def test_a_quantile_is_stated_from_its_floor_on(p, floor):
    assert quantile([1.0] * (floor - 1), p) is None
    assert quantile([1.0] * floor, p) == 1.0


@given(st.integers(0, 2**32), st.integers(662, 700))
def test_quantiles_are_those_of_the_inclusive_method(seed, n):
    rng = random.Random(seed)
    values = [rng.expovariate(1.0) for _ in range(n)]
    found = distribution(values)
    cuts = statistics.quantiles(sorted(values), n=100, method="inclusive")
    assert found.p50 == pytest.approx(cuts[49])
    assert found.p99 == pytest.approx(cuts[98])
    assert found.min <= found.p50 <= found.p90 <= found.p95 <= found.p99 <= found.max


def test_what_is_not_finite_is_left_out_and_nothing_gives_nothing():
    assert distribution([math.nan, math.inf]) is None
    assert distribution([]) is None
    assert distribution([1.0, math.nan, 3.0]).n == 2
