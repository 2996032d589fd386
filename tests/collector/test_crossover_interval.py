from __future__ import annotations

import numpy as np
import pytest

from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.flags import Flag
from edgesweep_collector.core.interval import confidence_interval, hull
from edgesweep_collector.core.line import Line
from edgesweep_collector.core.problem import Problem, Unit


def line(mean, half, joined=None):
    """Levels one octave apart, one half-width throughout."""
    k = len(mean)
    return Line(
        x=np.arange(k, dtype=float),
        mean=np.array(mean),
        joined=np.array(joined or [True] * (k - 1)),
        half=np.full(k, half),
        spread=np.full((k - 1, 3), half * half),
    )


def test_a_straight_line_gives_fiellers_interval():
    found = confidence_interval(line([-1.0, 0.0, 1.0], 0.5), 1.0, guarded=True)
    assert np.log2([found.low, found.high]) == pytest.approx([0.5, 1.5])
    assert found.open == ()


def test_a_bent_line_is_guarded():
    bent = line([-0.4, -0.2, 0.6, 1.4], 0.1)
    plain = confidence_interval(bent, 1.25, guarded=False)
    guarded = confidence_interval(bent, 1.25, guarded=True)
    assert plain.low >= guarded.low
    assert plain.high <= guarded.high


def test_a_kink_at_one_level_alone_is_not_guarded():
    kinked = line([-0.4, -0.2, 0.2, 0.6], 0.05)
    assert confidence_interval(kinked, 1.5, guarded=True) == confidence_interval(
        kinked, 1.5, guarded=False
    )


def test_a_weak_slope_opens_the_interval():
    found = confidence_interval(line([-0.1, 0.0, 0.1], 0.5), 1.0, guarded=False)
    assert found.open == ("low", "high")
    assert (found.low, found.high) == (1.0, 4.0)


def test_one_side_may_be_open_alone():
    found = confidence_interval(line([-0.1, 0.1, 1.0], 0.2), 0.5, guarded=False)
    assert found.open == ("low",)


def test_no_scatter_at_all_gives_the_root_itself():
    found = confidence_interval(line([-1.0, 1.0], 0.0), 0.5, guarded=False)
    assert (found.low, found.high) == pytest.approx((2**0.5, 2**0.5))


def test_without_repeats_there_is_no_interval():
    bare = Line(np.arange(2.0), np.array([-1.0, 1.0]), np.array([True]), None, None)
    assert confidence_interval(bare, 0.5, guarded=True) is None


def test_a_set_that_reaches_a_break_goes_on_beyond_it():
    broken = line([-1.0, -0.2, 0.9, 1.5], 0.3, [True, True, True])
    reached = line([-1.0, -0.2, 0.1, 1.5], 0.3, [True, True, False])
    assert confidence_interval(broken, 1.2, guarded=False).high < 4
    assert confidence_interval(reached, 1.7, guarded=False).high == pytest.approx(8)


def test_the_hull_covers_the_bracket():
    found = confidence_interval(line([-1.0, 0.0, 1.0], 0.5), 1.0, guarded=True)
    assert (hull(found, (1, 4)).low, hull(found, (1, 4)).high) == (1, 4)


def test_a_coarse_bracket_is_reported_as_the_interval():
    units = [
        Unit(f"u{k}", {1: (100.0,), 8: (100.0,)}, {1: (50.0 * f,), 8: (200.0 * f,)})
        for k, f in enumerate((0.99, 1.0, 1.01))
    ]
    answer = estimate(Problem("tok/s", True, tuple(units)))
    assert answer.flags == (Flag.COARSE_BRACKET,)
    assert (answer.figures.ci95.low, answer.figures.ci95.high) == (1, 8)
    assert answer.figures.ci95_plain.low > 2
