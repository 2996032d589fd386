"""The verdict table and the capacity table, row by row."""

from __future__ import annotations

import math

import pytest

from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.labels import verdict_of
from edgesweep_collector.core.problem import Limit, Problem, Unit

ROWS = [
    # labels   verdict
    ("AB", "CROSSOVER_A_TO_B"),
    ("TAUB", "CROSSOVER_A_TO_B"),
    ("BBUTAU", "CROSSOVER_B_TO_A"),
    ("BBB", "B_DOMINATES"),
    ("AA", "A_DOMINATES"),
    ("TB", "TIE_THEN_B"),
    ("TTA", "TIE_THEN_A"),
    ("UB", "UNRESOLVED_THEN_B"),
    ("TUA", "UNRESOLVED_THEN_A"),
    ("BT", "B_THEN_TIE"),
    ("AAT", "A_THEN_TIE"),
    ("BU", "B_THEN_UNRESOLVED"),
    ("ATU", "A_THEN_UNRESOLVED"),
    ("TBT", "TIE_THEN_B"),
    ("UBT", "UNRESOLVED_THEN_B"),
    ("TT", "TIE"),
    ("UU", "INCONCLUSIVE"),
    ("TU", "INCONCLUSIVE"),
    ("ABA", "MULTIPLE_CROSSINGS"),
    ("BUAATB", "MULTIPLE_CROSSINGS"),
    ("ATA", "A_DOMINATES"),
]

CAPACITY_ROWS = [
    # labels up to B's limit   verdict
    ("B", "CAPACITY_CROSSOVER_B_TO_A"),
    ("BB", "CAPACITY_CROSSOVER_B_TO_A"),
    ("TB", "CAPACITY_CROSSOVER_B_TO_A"),
    ("BT", "CAPACITY_CROSSOVER_B_TO_A"),
    ("BA", "CROSSOVER_B_TO_A"),
    ("AA", "A_DOMINATES"),
    ("A", "A_DOMINATES"),
    ("AT", "A_THEN_TIE"),
    ("AB", "MULTIPLE_CROSSINGS"),
    ("ABA", "MULTIPLE_CROSSINGS"),
    ("TT", "TIE_THEN_A_BY_CAPACITY"),
]

RATIO = {"A": 0.8, "B": 1.25, "T": 1.01}


def problem(labels, **options):
    """A single unit whose levels, doubling from 1, get these labels."""
    levels = [2**k for k in range(len(labels))]
    a = dict.fromkeys(levels, (100.0,))
    b = {level: (100.0 * RATIO[label],) for level, label in zip(levels, labels, strict=True)}
    return Problem("tok/s", True, (Unit("d", a, b),), **options)


def noisy(*ratios):
    """Three units that agree on everything but scatter, as (ratio, spread) per level."""
    units = [
        Unit(
            f"u{k}",
            {2**i: (100.0,) for i in range(len(ratios))},
            {2**i: (100.0 * r * math.exp(k * s),) for i, (r, s) in enumerate(ratios)},
        )
        for k in (-1, 0, 1)
    ]
    return Problem("tok/s", True, tuple(units))


@pytest.mark.parametrize(("labels", "name"), ROWS)
def test_labels_add_up_to_the_verdict(labels, name):
    assert verdict_of(tuple(labels)).name == name


@pytest.mark.parametrize(("labels", "name"), CAPACITY_ROWS)
def test_a_memory_limit_has_the_last_word(labels, name):
    last = 2 ** (len(labels) - 1)
    answer = estimate(problem(labels, limit_b=Limit(last, 2 * last)))
    assert answer.labels == labels
    assert answer.verdict.name == name
    assert answer.as_json()["capacity"] == {
        "limited": "B",
        "last_ok": last,
        "first_failed": 2 * last,
    }


def test_an_inconclusive_range_ends_by_capacity_too():
    answer = estimate(noisy((1.0, 0.2), (1.0, 0.2)))
    assert answer.verdict.name == "INCONCLUSIVE"
    limited = Problem("tok/s", True, noisy((1.0, 0.2), (1.0, 0.2)).units, limit_a=Limit(2, 4))
    assert estimate(limited).verdict.name == "INCONCLUSIVE_THEN_B_BY_CAPACITY"
    assert estimate(limited).capacity_crossover == (2, 4)


def test_both_stopping_at_the_same_level_changes_nothing():
    answer = estimate(problem("BB", limit_a=Limit(2, 4), limit_b=Limit(2, 4)))
    assert answer.verdict.name == "B_DOMINATES"
    assert answer.as_json()["capacity"]["limited"] == "both"
    assert answer.capacity_crossover is None


def test_of_two_limits_the_lower_one_decides():
    answer = estimate(problem("BB", limit_a=Limit(8, 16), limit_b=Limit(2, 4)))
    assert answer.verdict.name == "CAPACITY_CROSSOVER_B_TO_A"
    assert answer.capacity_crossover == (2, 4)


def test_a_second_change_by_capacity_leaves_no_single_number():
    answer = estimate(problem("AB", limit_b=Limit(2, 4)))
    assert answer.figures.crossover is None
    assert answer.capacity_crossover == (2, 4)
    assert len(answer.crossings) == 1


def test_one_level_below_the_limit_is_not_enough():
    answer = estimate(problem("B", limit_b=Limit(8, 16)))
    assert answer.verdict.name == "INSUFFICIENT_DATA"
    assert answer.reason == "one common level (1); two are needed"


def test_points_that_contradict_each_other_are_inconclusive():
    answer = estimate(noisy((0.7, 0.01), (1.5, 0.6), (0.7, 0.01)))
    assert answer.labels == "AUA"
    assert answer.verdict.name == "INCONCLUSIVE"
    assert "more than once" in answer.reason
    assert answer.figures.excluded is not None


def test_an_unresolved_start_gives_a_bound():
    answer = estimate(noisy((1.02, 0.1), (1.4, 0.01), (1.5, 0.01)))
    assert answer.verdict.name == "UNRESOLVED_THEN_B"
    assert answer.figures.bound == 2
    assert answer.figures.leads_from is None


def test_a_lead_that_ends_in_a_tie_says_until_when():
    answer = estimate(problem("BBT"))
    assert answer.verdict.name == "B_THEN_TIE"
    assert 2 < answer.figures.leads_until < 4


def test_a_lead_that_begins_and_ends_in_a_tie_gives_both_ends():
    figures = estimate(problem("TBT")).figures
    assert 1 < figures.leads_from < 2 < figures.leads_until < 4


def test_domination_gives_the_smallest_and_largest_lead():
    low, high = estimate(problem("AA")).figures.lead_ratio
    assert low == pytest.approx(1.25)
    assert high == pytest.approx(1.25)


def test_a_tie_inside_a_lead_is_flagged():
    assert "TIE_INSIDE" in estimate(problem("BTB")).as_json()["flags"]


def test_no_common_level_is_no_overlap_with_the_ranges():
    unit = Unit("d", {1: (1.0,), 2: (1.0,)}, {4: (1.0,), 8: (1.0,)})
    answer = estimate(Problem("tok/s", True, (unit,), "llama.cpp", "vLLM"))
    assert answer.verdict.name == "NO_OVERLAP"
    assert "llama.cpp at 1, 2, vLLM at 4, 8" in answer.reason


@pytest.mark.parametrize("b", [{}, {1: None, 2: None}, {1: (0.0,), 2: (-1.0,)}])
def test_a_missing_curve_is_a_verdict_that_names_it(b):
    unit = Unit("d", {1: (1.0,), 2: (1.0,)}, b)
    answer = estimate(Problem("tok/s", True, (unit,), "llama.cpp", "vLLM"))
    assert answer.verdict.name == "INSUFFICIENT_DATA"
    assert answer.reason == "no valid level for vLLM"


def test_no_units_at_all_is_a_verdict():
    assert estimate(Problem("tok/s", True, ())).verdict.name == "INSUFFICIENT_DATA"
