from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesweep.student import t_quantile

# p, df, quantile: the usual two-sided tables carried to more digits.
TABLE = [
    (0.975, 3, 3.1824463052837078),
    (0.95, 4, 2.1318467863266495),
    (0.975, 5, 2.5705818356363146),
    (0.9995, 6, 5.95881617881889),
    (0.995, 7, 3.4994832973504924),
    (0.975, 10, 2.228138851986274),
    (0.975, 30, 2.0422724563012378),
    (0.975, 100, 1.9839715185235518),
    (0.975, 20_000, 1.9600826051581348),
]
PROBABILITIES = [1e-12, 1e-6, 0.001, 0.025, 0.3, 0.4999, 0.6, 0.9, 0.975, 0.9995, 0.999999]


@pytest.mark.parametrize(("p", "df", "quantile"), TABLE)
def test_agrees_with_the_tables(p, df, quantile):
    assert t_quantile(p, df) == pytest.approx(quantile, rel=1e-9)


@pytest.mark.parametrize("p", PROBABILITIES)
def test_one_degree_of_freedom_is_cauchy(p):
    exact = -1 / math.tan(math.pi * p) if p < 0.25 else math.tan(math.pi * (p - 0.5))
    assert t_quantile(p, 1) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("p", PROBABILITIES)
def test_two_degrees_of_freedom_have_a_closed_form(p):
    assert t_quantile(p, 2) == pytest.approx((2 * p - 1) / math.sqrt(2 * p * (1 - p)), rel=1e-9)


@given(
    t=st.floats(-40, 40).filter(lambda t: abs(t) > 1e-6),
)
def test_inverts_the_distribution_of_four_degrees_of_freedom(t):
    u = 1 + t * t / 4
    p = 0.5 + 0.375 * t / math.sqrt(u) * (1 - t * t / u / 12)
    # Where p is close to 1 its own rounding moves the quantile.
    assert t_quantile(p, 4) == pytest.approx(t, rel=1e-7)


@given(p=st.floats(1e-9, 0.5 - 1e-9), df=st.floats(0.5, 1e6))
def test_is_odd_about_the_median_and_falls_with_df(p, df):
    quantile = t_quantile(p, df)
    assert quantile < 0
    assert t_quantile(1 - p, df) == pytest.approx(-quantile, rel=1e-5)
    assert t_quantile(p, df * 1.5) > quantile


def test_the_two_methods_meet():
    for p in (0.6, 0.975, 0.9999999):
        assert t_quantile(p, 9_999.999) == pytest.approx(t_quantile(p, 10_000), rel=1e-8)


def test_the_median_is_zero():
    assert t_quantile(0.5, 3) == 0.0


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, float("nan")])
def test_refuses_what_is_no_probability(p):
    with pytest.raises(ValueError, match="p must lie"):
        t_quantile(p, 3)


@pytest.mark.parametrize("df", [0.0, -1.0, float("nan")])
def test_refuses_no_degrees_of_freedom(df):
    with pytest.raises(ValueError, match="df must be"):
        t_quantile(0.975, df)
