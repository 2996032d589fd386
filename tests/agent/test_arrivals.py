from __future__ import annotations

from itertools import pairwise
from statistics import fmean, pvariance

import pytest

from edgesweep_agent.core.arrivals import poisson_offsets


def gaps(offsets):
    return [b - a for a, b in pairwise((0.0, *offsets))]


def test_gaps_are_exponential():
    """Of an exponential law the mean is the deviation, and 1 - 1/e are shorter than it."""
    got = gaps(poisson_offsets("seed", 20_000, 4.0))
    assert fmean(got) == pytest.approx(0.25, rel=0.03)
    assert pvariance(got) ** 0.5 == pytest.approx(0.25, rel=0.05)
    assert sum(gap < 0.25 for gap in got) / len(got) == pytest.approx(0.632, abs=0.01)


def test_totals_are_left_as_they_were_drawn():
    ends = [poisson_offsets(f"seed/{n}", 50, 10.0)[-1] for n in range(40)]
    assert fmean(ends) == pytest.approx(5.0, rel=0.1)
    assert max(ends) - min(ends) > 1.0


def test_offsets_ascend_and_repeat_for_a_seed():
    got = poisson_offsets("seed", 100, 2.0)
    assert len(got) == 100
    assert got[0] > 0
    assert all(a < b for a, b in pairwise(got))
    assert got == poisson_offsets("seed", 100, 2.0)
    assert got != poisson_offsets("other", 100, 2.0)
