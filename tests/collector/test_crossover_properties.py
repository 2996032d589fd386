"""What must not depend on how the question is put."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.problem import Limit, Problem, Unit
from edgesweep_collector.core.words import words
from edgesweep_collector.report.text import render_text

LEVELS = (1, 2, 4, 8, 16)
VALUES = st.floats(0.5, 2000.0)
CELLS = st.one_of(st.none(), st.lists(VALUES, min_size=1, max_size=3).map(tuple))
CURVES = st.dictionaries(st.sampled_from(LEVELS), CELLS, max_size=len(LEVELS))
LIMITS = st.one_of(st.none(), st.sampled_from([Limit(0, 1), Limit(4, 8), Limit(16, 32)]))
PROBLEMS = st.builds(
    Problem,
    metric=st.just("tok/s"),
    higher_is_better=st.booleans(),
    units=st.lists(st.tuples(CURVES, CURVES), min_size=1, max_size=4).map(
        lambda pairs: tuple(Unit(f"u{k}", a, b) for k, (a, b) in enumerate(pairs))
    ),
    unit_kind=st.sampled_from(["device", "session"]),
    limit_a=LIMITS,
    limit_b=LIMITS,
)
MIRROR = str.maketrans("AB", "BA")
SWAPPED = {"A": "B", "B": "A"}


def mapped(problem, change):
    """The problem with every value changed."""

    def curve(old):
        return {
            level: cell and tuple(change(level, value) for value in cell)
            for level, cell in old.items()
        }

    units = tuple(Unit(u.name, curve(u.a), curve(u.b)) for u in problem.units)
    return replace(problem, units=units)


def swapped_letters(name):
    return "_".join(SWAPPED.get(word, word) for word in name.split("_"))


def numbers(answer):
    """The figures that are there, by name."""
    figures = answer.figures
    found = {
        "crossover": figures.crossover,
        "leads_from": figures.leads_from,
        "leads_until": figures.leads_until,
        "low": figures.ci95 and figures.ci95.low,
        "high": figures.ci95 and figures.ci95.high,
    }
    return {name: value for name, value in found.items() if value is not None}


@settings(max_examples=80, deadline=None)
@given(PROBLEMS)
def test_whatever_was_measured_is_answered_in_strict_json_and_in_words(problem):
    answer = estimate(problem)
    json.dumps(answer.as_json(), allow_nan=False)
    assert len(answer.labels) == len(answer.levels) == len(answer.log_ratio)
    for text in (words(problem, answer), render_text(problem, answer)):
        assert "None" not in text
        assert "nan" not in text


@settings(max_examples=80, deadline=None)
@given(PROBLEMS)
def test_swapping_the_engines_mirrors_the_verdict(problem):
    there = estimate(problem)
    back = estimate(
        replace(
            problem,
            units=tuple(Unit(u.name, u.b, u.a) for u in problem.units),
            limit_a=problem.limit_b,
            limit_b=problem.limit_a,
        )
    )
    assert back.verdict.name == swapped_letters(there.verdict.name)
    assert back.labels == there.labels.translate(MIRROR)
    assert numbers(back) == pytest.approx(numbers(there), rel=1e-6)
    assert back.figures.bracket == there.figures.bracket


@settings(max_examples=60, deadline=None)
@given(PROBLEMS)
def test_the_reciprocal_of_a_metric_with_its_direction_turned_is_the_same_question(problem):
    turned = mapped(problem, lambda _, value: 1 / value)
    there = estimate(problem)
    back = estimate(replace(turned, higher_is_better=not problem.higher_is_better))
    assert back.verdict == there.verdict
    assert numbers(back) == pytest.approx(numbers(there), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(PROBLEMS, st.floats(0.01, 100), st.floats(-1, 1))
def test_a_factor_common_to_both_engines_cancels(problem, factor, power):
    # Bridged levels see a power law of concurrency as the straight line it is, too.
    scaled = mapped(problem, lambda level, value: value * factor * level**power)
    there, back = estimate(problem), estimate(scaled)
    assert back.verdict == there.verdict
    assert back.log_ratio == pytest.approx(there.log_ratio, abs=1e-8)
    assert numbers(back) == pytest.approx(numbers(there), rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(PROBLEMS)
def test_the_crossover_lies_between_the_levels_that_prove_it(problem):
    figures = estimate(problem).figures
    if figures.crossover is not None:
        low, high = figures.proven_between
        assert low <= figures.bracket[0] <= figures.crossover <= figures.bracket[1] <= high
        assert figures.ci95 is None or figures.ci95.low <= figures.crossover <= figures.ci95.high
