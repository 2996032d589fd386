"""Levels that do not match, levels that failed, and units that differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.flags import Flag
from edgesweep_collector.core.logratio import log_curve
from edgesweep_collector.core.problem import Problem, Unit

LEVELS = (1, 2, 4, 8)
RISING = (0.6, 0.8, 1.1, 1.5)


def unit(name, ratios=RISING, levels=LEVELS, factor=1.0):
    """A unit with A at 100 everywhere and B at these multiples of it; None is a failed level."""
    a = dict.fromkeys(levels, (100.0,))
    b = {
        level: None if ratio is None else (100.0 * ratio * factor,)
        for level, ratio in zip(levels, ratios, strict=True)
    }
    return Unit(name, a, b)


def answer(*units, **options):
    return estimate(Problem("tok/s", True, units, **options))


def test_a_curve_is_bridged_where_nothing_was_scheduled_and_broken_where_it_failed():
    x = np.log2([1.0, 2.0, 3.0, 4.0, 8.0])
    bridged = log_curve({1: (1.0,), 4: (16.0,)}, 1.0).at(x)
    assert bridged[:4] == pytest.approx(2 * math.log(2) * x[:4])
    assert np.isnan(bridged[4])
    broken = log_curve({1: (1.0,), 2: None, 4: (16.0,), 8: (32.0,)}, 1.0).at(x)
    assert np.isfinite(broken).tolist() == [True, False, False, True, True]


def test_lower_is_better_turns_the_sign():
    assert log_curve({1: (math.e,)}, -1.0).z.tolist() == pytest.approx([-1.0])


def test_values_that_are_not_above_zero_are_dropped_and_counted():
    curve = log_curve({1: (0.0, 2.0, -1.0), 2: (0.0,)}, 1.0)
    assert curve.dropped == 3
    assert curve.n.tolist() == [1, 0]
    result = answer(Unit("d", {1: (1.0, 0.0), 2: (1.0,)}, {1: (2.0,), 2: (3.0,)}))
    assert result.dropped == 1
    assert Flag.VALUES_DROPPED in result.flags


def test_three_units_are_a_class_with_an_interval():
    result = answer(*(unit(f"u{k}", factor=f) for k, f in enumerate((0.98, 1.0, 1.02))))
    assert result.flags == ()
    assert result.units == 3
    assert result.figures.ci95.low < result.figures.crossover < result.figures.ci95.high
    assert len([c for _, c in result.unit_crossovers if c is not None]) == 3


def test_two_units_show_their_own_crossovers_and_a_flag():
    result = answer(unit("u1", factor=0.99), unit("u2", factor=1.01))
    assert result.flags[0] is Flag.LOW_DEVICES
    assert all(2 < c < 4 for _, c in result.unit_crossovers)


def test_a_level_that_failed_on_one_unit_of_three_enters_no_mean():
    whole = unit("u1"), unit("u2", factor=1.02), unit("u3", factor=0.98)
    holed = (*whole[:2], unit("u3", (0.6, 0.8, None, 1.5), factor=0.98))
    result = answer(*holed)
    assert result.levels == LEVELS
    assert result.failed_b == (4,)
    assert result.log_ratio[2] == pytest.approx(math.log(1.1) + math.log(1.02) / 2)
    assert result.figures.crossover is not None


def test_a_level_that_failed_on_most_units_breaks_the_line():
    holes = (0.6, 0.8, None, 1.5)
    result = answer(unit("u1", holes), unit("u2", holes, factor=1.01), unit("u3"))
    assert result.levels == (1, 2, 8)
    assert result.figures.crossover is None
    assert result.figures.bracket == (2, 8)


def test_a_unit_with_a_short_range_is_set_aside():
    short = unit("short", RISING[:2], LEVELS[:2])
    result = answer(unit("u1"), unit("u2", factor=1.01), short)
    assert result.set_aside == ("short",)
    assert set(result.flags) >= {Flag.PARTIAL_RANGE, Flag.LOW_DEVICES}
    assert result.levels == LEVELS


def test_too_few_units_with_both_engines_say_what_is_missing():
    result = answer(unit("u1"), Unit("u2", {1: (1.0,)}, {}), Unit("u3", {}, {}))
    assert result.verdict.name == "INSUFFICIENT_DATA"
    assert result.reason == "1 of 3 units have levels of both engines; 2 are needed"


def test_three_sessions_stand_as_units_of_one_device():
    sessions = [unit(f"s{k}", factor=f) for k, f in enumerate((0.98, 1.0, 1.02))]
    result = answer(*sessions, unit_kind="session")
    assert result.flags == (Flag.SINGLE_DEVICE,)
    assert result.figures.ci95 == answer(*sessions).figures.ci95


def test_two_sessions_are_pooled_as_repeats():
    result = answer(unit("s1", factor=0.99), unit("s2", factor=1.01), unit_kind="session")
    expected = {Flag.SINGLE_DEVICE, Flag.POOLED_REPEATS, Flag.LOW_SESSIONS}
    assert set(result.flags) >= expected
    assert result.figures.ci95 is not None


def test_a_level_that_failed_in_one_of_two_sessions_is_failed():
    holed = unit("s2", (0.6, 0.8, None, 1.5))
    assert answer(unit("s1"), holed, unit_kind="session").levels == (1, 2, 8)


def test_pooled_repeats_interpolate_their_variance():
    a = {1: (99.0, 101.0), 4: (99.0, 101.0)}
    b = {1: (69.0, 71.0), 2: (90.0, 92.0), 4: (149.0, 151.0)}
    result = answer(Unit("d", a, b))
    logs = [np.log(cell) for curve in (a, b) for cell in curve.values()]
    variance = sum(((v - v.mean()) ** 2).sum() for v in logs) / 5
    # At 2, A leans half on each neighbour: n = 2 and weights 1/2 make a variance of S2 / 4.
    half = 2.5705818356363146 * math.sqrt(variance * (1 / 4 + 1 / 2))
    assert result.half_width[1] == pytest.approx(half)
    assert Flag.POOLED_REPEATS in result.flags


def test_of_several_zeros_the_one_of_least_regret_is_chosen():
    # Before 16 B is ahead by a hair only for a moment; the lasting change comes after it.
    ratios = (0.7, 0.8, 0.97, 1.01, 0.96, 1.3)
    result = answer(unit("d", ratios, (1, 2, 4, 8, 16, 32)))
    assert len(result.crossings) == 3
    assert result.verdict.name == "CROSSOVER_A_TO_B"
    assert 16 < result.figures.crossover < 32


def test_a_run_of_zeros_between_opposite_signs_is_crossed_in_its_middle():
    result = answer(unit("d", (0.5, 1.0, 1.0, 2.0)))
    assert result.figures.crossover == pytest.approx(math.sqrt(8))
    assert result.figures.bracket == (2, 4)


def test_a_zero_between_equal_signs_is_no_crossing():
    assert answer(unit("d", (0.5, 1.0, 0.5, 0.5))).crossings == ()


def test_a_tie_band_stops_at_a_break_of_the_line():
    result = answer(unit("d", (0.5, None, 0.97, 2.0)))
    low, high = result.figures.tie_band
    assert low is None
    assert 4 < high < 8
