"""Quantiles of Student's t distribution, in pure Python.

Both sides of the contract state intervals, and the device carries no numerical library.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

# Above this many degrees of freedom the log-gamma difference in the beta prefix loses digits,
# while the expansion about the normal is already exact to double precision.
_LARGE_DF = 1e4
_MAX_TERMS = 2_000
_MAX_STEPS = 200


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """The value that Student's t with ``df`` degrees of freedom stays below with probability ``p``.

    Relative accuracy is 1e-9 or better. The distribution function is the regularized incomplete
    beta function (Abramowitz & Stegun 26.7.1, NIST DLMF 8.17), inverted by safeguarded Newton
    steps; from 10,000 degrees of freedom on, the expansion about the normal quantile is used
    (Abramowitz & Stegun 26.7.5).

    Raises:
        ValueError: ``p`` is not strictly between 0 and 1, or ``df`` is not above 0.
    """
    if not 0.0 < p < 1.0:
        raise ValueError(f"p must lie strictly between 0 and 1, got {p!r}")
    if not df > 0.0:
        raise ValueError(f"df must be above 0, got {df!r}")
    if p == 0.5:
        return 0.0
    # 1 - p is exact for p >= 0.5, and the smaller tail carries all the digits of p.
    tail = min(p, 1.0 - p)
    size = _from_normal(tail, df) if df >= _LARGE_DF else _from_tail(tail, df)
    return math.copysign(size, p - 0.5)


def _from_normal(tail: float, df: float) -> float:
    """Expansion of the upper quantile in powers of 1/df, Abramowitz & Stegun 26.7.5."""
    z = -NormalDist().inv_cdf(tail)
    s = z * z
    terms = (
        (s + 1) / 4,
        ((5 * s + 16) * s + 3) / 96,
        (((3 * s + 19) * s + 17) * s - 15) / 384,
        ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / 92160,
    )
    return z * (1 + sum(term / df ** (k + 1) for k, term in enumerate(terms)))


def _from_tail(tail: float, df: float) -> float:
    """Solve P(T > t) = tail for t > 0: Newton, falling back to bisection of log t."""
    low, high = 0.0, 1.0
    while _gap(high, tail, df) > 0.0:
        low, high = high, high * 4.0
    t = high
    for _ in range(_MAX_STEPS):
        gap = _gap(t, tail, df)
        low, high = (t, high) if gap > 0.0 else (low, t)
        step = t + gap / _density(t, df)
        if not low < step < high:
            step = math.sqrt(low * high) if low > 0.0 else high / 4.0
        if abs(step - t) <= 4e-16 * step:
            return step
        t = step
    return t


def _gap(t: float, tail: float, df: float) -> float:
    """P(T > t) - tail: near the median from the centre, far out from the tail, to keep digits."""
    square = t * t
    if tail > 0.25:
        return (0.5 - tail) - 0.5 * _beta(0.5, 0.5 * df, square / (df + square))
    return 0.5 * _beta(0.5 * df, 0.5, df / (df + square)) - tail


def _density(t: float, df: float) -> float:
    log_norm = math.lgamma(0.5 * (df + 1)) - math.lgamma(0.5 * df) - 0.5 * math.log(df * math.pi)
    return math.exp(log_norm - 0.5 * (df + 1) * math.log1p(t * t / df))


def _beta(a: float, b: float, x: float) -> float:
    """Regularized incomplete beta function I_x(a, b), NIST DLMF 8.17."""
    if x <= 0.0:
        return 0.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _beta(b, a, 1.0 - x)
    log_prefix = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return math.exp(log_prefix) / (a * _continued_fraction(a, b, x))


def _continued_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of DLMF 8.17.22, by the modified Lentz method (Thompson 1986)."""
    value, c, d = 1.0, 1.0, 0.0
    for k in range(1, _MAX_TERMS):
        m, odd = divmod(k, 2)
        if odd:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / (1.0 + term * d)
        c = 1.0 + term / c
        value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value
