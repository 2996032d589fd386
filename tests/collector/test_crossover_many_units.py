"""A fleet of many units: which ones the line is drawn from, and that this stays cheap."""

from __future__ import annotations

import random
import time

import pytest

from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.line import covering, needed_units
from edgesweep_collector.core.logratio import unit_ratios
from edgesweep_collector.core.problem import Problem, Unit


def problem(ranges):
    """Units that were measured at the two ends of a range, or at no level of both engines."""
    units = (
        Unit(f"u{n}", dict.fromkeys(ends, (1.0,)), dict.fromkeys(ends, (2.0,)))
        for n, ends in enumerate(ranges)
    )
    return Problem("tok/s", True, tuple(units))


def widest(ratios, need):
    """The definition, by trying every range."""
    spans = {ratio.name: (k[0], k[-1]) for ratio in ratios if (k := ratio.knots()).size}
    choices = []
    for low in sorted({low for low, _ in spans.values()}):
        for high in sorted({high for _, high in spans.values()}):
            names = [n for n, (lo, hi) in spans.items() if lo <= low <= high <= hi]
            if len(names) >= need:
                choices.append((high - low, len(names), names))
    return max(choices, key=lambda choice: choice[:2])[2] if choices else []


@pytest.mark.parametrize("seed", range(40))
def test_the_units_kept_are_those_of_the_widest_range_that_enough_cover(seed):
    draw = random.Random(seed)
    ranges = [
        tuple(sorted(draw.sample((1, 2, 4, 8, 16, 32), 2))) if draw.random() < 0.9 else ()
        for _ in range(draw.randint(1, 12))
    ]
    ratios = unit_ratios(problem(ranges))
    need = needed_units(len(ratios))
    assert [ratio.name for ratio in covering(ratios, need)] == widest(ratios, need)


def test_units_with_a_range_each_are_sorted_and_not_tried_with_each_other():
    ratios = unit_ratios(problem([(n + 1, n + 2001) for n in range(2000)]))
    began_s = time.process_time()
    kept = covering(ratios, needed_units(len(ratios)))
    # Every pair of ends with every unit takes minutes.
    assert time.process_time() - began_s < 10
    assert len(kept) == needed_units(len(ratios))


def test_a_fleet_of_many_units_is_one_answer():
    ranges = [(1, 8) if n % 4 else (2, 4) for n in range(4000)]
    answer = estimate(problem(ranges))
    assert (answer.units, len(answer.set_aside)) == (3000, 1000)
    assert answer.set_aside[:2] == ("u0", "u4")
