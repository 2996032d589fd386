"""Energy of a window: exact at its edges, absent where readings gap, one boundary at a time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesweep_agent.core.energy import (
    Energy,
    Series,
    best,
    by_boundary,
    figures,
    measure,
    per,
)
from edgesweep_agent.core.window import Window

S = 1_000_000_000


def at(*points):
    return tuple((round(t * S), value) for t, value in points)


def window(start, end):
    return Window(round(start * S), round(end * S))


def steady(watts, start=0.0, end=12.0, period=0.1, name="power_vdd_in", boundary="input"):
    """Readings of ``watts(t)``."""
    n = round((end - start) / period)
    times = [start + i * period for i in range(n + 1)]
    return Series(name, "W", boundary, at(*((t, watts(t)) for t in times)))


def counter(start=0.0, end=12.0, watts=15.0, unit="J", scale=1.0, period=0.1, **more):
    n = round((end - start) / period)
    points = at(*((start + i * period, 7 + watts * i * period * scale) for i in range(n + 1)))
    return Series("energy_package_0", unit, "package", points, **more)


def test_a_constant_load_is_watts_times_seconds():
    found = measure(steady(lambda t: 10.0 + (round(t * 10) % 2) * 1e-9), window(1, 11))
    assert found.joules == pytest.approx(100)
    assert found.mean_w == pytest.approx(10)
    assert (found.boundary, found.reason, found.coverage) == ("input", "", pytest.approx(1))
    assert found.n == 101
    assert found.rate_hz == pytest.approx(10)


def test_the_edges_of_the_window_are_interpolated():
    ramp = steady(lambda t: 3 * t)
    found = measure(ramp, window(1.234, 5.678))
    assert found.joules == pytest.approx(1.5 * (5.678**2 - 1.234**2))


def test_what_happened_outside_of_the_window_does_not_count():
    spiky = steady(lambda t: 10.0 if 2 <= t <= 8 else 1e6)
    assert measure(spiky, window(2.5, 7.5)).joules == pytest.approx(50)


@given(
    st.lists(st.floats(-5, 60), min_size=60, max_size=60),
    st.floats(0.3, 2.4),
    st.floats(2.6, 5.6),
)
def test_two_halves_make_the_whole(values, start, end):
    series = Series("power_x", "W", "input", at(*((i / 10, w) for i, w in enumerate(values))))
    edges = [round(start * S), round(2.5 * S), round(end * S)]
    halves = [measure(series, Window(*pair)).joules for pair in pairwise(edges)]
    if None not in halves:
        whole = measure(series, Window(edges[0], edges[-1])).joules
        assert sum(halves) == pytest.approx(whole, abs=1e-9)


def test_a_negative_rail_stays_negative():
    found = measure(steady(lambda _: -0.392, boundary="rails"), window(1, 2))
    assert found.joules == pytest.approx(-0.392)


def without(series, start, end):
    kept = tuple(p for p in series.points if not start * S < p[0] < end * S)
    return Series(series.name, series.unit, series.boundary, kept)


@pytest.mark.parametrize(
    ("series", "says", "coverage"),
    [
        (without(steady(lambda _: 9.0), 3, 3.4), "a gap of 0.40 s 2.00 s into", 0.96),
        (without(steady(lambda _: 9.0), 0.85, 1.25), "a gap of 0.50 s -0.20 s into", 0.97),
        (steady(lambda _: 9.0, start=1.5), "the first reading is 0.50 s into", 0.95),
        (steady(lambda _: 9.0, end=10.0), "the last reading is 1.00 s before the end", 0.9),
        (steady(lambda _: 9.0, period=1.0), "a gap of 1.00 s", 0.0),
        (Series("power_vdd_in", "W", "input", ()), "no readings", 0.0),
        (steady(lambda _: float("nan")), "no readings", 0.0),
    ],
)
def test_readings_that_gap_give_no_figure_and_say_why(series, says, coverage):
    found = measure(series, window(1, 11))
    assert (found.joules, found.mean_w) == (None, None)
    assert found.reason.startswith("power_vdd_in: ")
    assert says in found.reason
    assert found.coverage == pytest.approx(coverage)


def test_one_reading_that_is_late_is_no_gap():
    assert measure(without(steady(lambda _: 9.0), 3, 3.2), window(1, 11)).joules is not None


@pytest.mark.parametrize(("start", "end"), [(1, 1), (2, 1)])
def test_an_empty_window_has_no_energy(start, end):
    assert measure(steady(lambda _: 9.0), window(start, end)).joules is None


def test_a_window_shorter_than_two_readings_is_a_guess():
    found = measure(steady(lambda _: 9.0), window(1.01, 1.09))
    assert (found.joules, found.reason) == (None, "power_vdd_in: 0 readings within 0.08 s")


def test_a_slow_sensor_is_told_by_the_rate_at_which_it_changes():
    slow = steady(lambda t: 10 + int(t + 1e-6) % 2)
    assert measure(slow, window(1, 11)).rate_hz == pytest.approx(1, abs=0.1)
    assert measure(steady(lambda _: 9.0), window(1, 11)).rate_hz is None


@pytest.mark.parametrize(("unit", "scale"), [("J", 1), ("mJ", 1e3), ("uJ", 1e6)])
def test_a_counter_is_subtracted_in_its_unit(unit, scale):
    found = measure(counter(unit=unit, scale=scale), window(1.05, 10.98))
    assert found.joules == pytest.approx(15 * 9.93)
    assert found.mean_w == pytest.approx(15)


def test_a_counter_that_turned_over_has_lost_nothing():
    turn = 262_143_328_850
    straight = counter(unit="uJ", scale=1e6)
    shift = turn - round(6 * 15e6)
    turned = tuple((t, (value + shift) % turn) for t, value in straight.points)
    series = Series("energy_package_0", "uJ", "package", turned, turn)
    assert min(v for _, v in turned) < 1e8 < max(v for _, v in turned)
    assert measure(series, window(1, 11)).joules == pytest.approx(150)


def test_a_counter_without_a_turn_that_goes_back_was_reset():
    points = tuple((t, value if t < 5 * S else value - 50) for t, value in counter().points)
    found = measure(Series("energy_gpu", "J", "gpu", points), window(1, 11))
    assert (found.joules, found.reason) == (
        None,
        "energy_gpu: the counter was set back 4.00 s into the window",
    )


def test_a_counter_may_be_read_seldom_within_the_window_but_not_at_its_edges():
    assert measure(without(counter(), 3, 9), window(1, 11)).joules == pytest.approx(150)
    found = measure(without(counter(), 0.5, 1.5), window(1, 11))
    assert (found.joules, "near the edge" in found.reason) == (None, True)
    assert "a gap of 31" in measure(without(counter(end=60), 10, 41), window(1, 50)).reason


def test_a_counter_that_stands_still_is_no_zero():
    still = Series("energy_gpu", "J", "gpu", at(*((i / 10, 5.0) for i in range(50))))
    found = measure(still, window(1, 4))
    assert (found.joules, found.reason) == (None, "energy_gpu: the counter did not move")


def rail(name, watts):
    return steady(lambda _: watts, name=f"power_{name}", boundary="rails")


def test_the_rails_of_a_board_are_added_up_and_one_missing_is_no_sum():
    whole = [rail("vdd_gpu_soc", 4.0), rail("vdd_cpu_cv", -0.4), rail("vin_sys_5v0", 3.0)]
    found = best(whole, window(1, 11))
    assert (found.boundary, found.mean_w) == ("rails", pytest.approx(6.6))
    partial = [*whole[:2], without(whole[2], 3, 5)]
    found = best(partial, window(1, 11))
    assert (found.joules, found.coverage) == (None, pytest.approx(0.8))
    assert found.reason.startswith("power_vin_sys_5v0: a gap")


@pytest.mark.parametrize(
    ("boundaries", "expected"),
    [
        (["package", "rails", "input", "wall"], "wall"),
        (["package", "rails", "input"], "input"),
        (["gpu", "package", "rails"], "rails"),
        (["gpu", "package"], "package"),
        (["gpu"], "gpu"),
    ],
)
def test_boundaries_are_never_added_up(boundaries, expected):
    series = [
        steady(lambda _, w=w: float(w), boundary=name, name=f"power_{name}")
        for w, name in enumerate(boundaries, 10)
    ]
    found = best(series, window(1, 11))
    assert found.boundary == expected
    assert found.mean_w == pytest.approx(10 + boundaries.index(expected))
    assert by_boundary(series, window(1, 11)).keys() == set(boundaries)


def test_a_gap_at_the_input_is_not_filled_by_the_package():
    gapped = without(steady(lambda _: 9.0), 3, 5)
    found = best([gapped, counter()], window(1, 11))
    assert (found.joules, found.boundary) == (None, "input")


def test_the_parts_of_a_rail_that_have_no_boundary_do_not_count():
    part = steady(lambda _: 4.0, name="power_vdd_soc", boundary="")
    assert best([part, steady(lambda _: 9.0)], window(1, 11)).mean_w == pytest.approx(9)
    found = best([part], window(1, 11))
    assert (found.joules, found.boundary) == (None, "")
    assert found.reason == "nothing on this box measures power"


def test_a_counter_and_the_power_of_one_gpu_are_two_views_of_it():
    power = steady(lambda _: 55.0, name="power_gpu", boundary="gpu")
    energy = Series("energy_gpu", "mJ", "gpu", at(*((i / 10, i * 5e3) for i in range(121))))
    other = steady(lambda _: 20.0, name="power_gpu1", boundary="gpu")
    assert best([power, energy, other], window(1, 11)).mean_w == pytest.approx(70)
    stuck = Series("energy_gpu", "mJ", "gpu", at(*((i / 10, 5e3) for i in range(121))))
    assert best([power, stuck, other], window(1, 11)).mean_w == pytest.approx(75)


@pytest.mark.parametrize(
    ("joules", "count", "expected"),
    [(90.0, 300, 0.3), (90.0, 0, None), (90.0, None, None), (None, 300, None), (-3.0, 3, -1.0)],
)
def test_energy_per_token(joules, count, expected):
    assert per(Energy(joules, joules, "input"), count) == expected


def test_the_figures_of_a_level_leave_out_what_was_not_measured():
    found = Energy(90.0, 9.0, "input")
    told = figures(found, {"token": 450, "task": None})
    assert told == {"power_w": 9.0, "energy_j_per_token": 0.2}
    assert figures(Energy(None, None, "input"), {"token": 450}) == {}
