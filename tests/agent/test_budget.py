"""What a time budget leaves room for, and what is said of the rest."""

from __future__ import annotations

import anyio
import pytest

import wire
from edgesweep.durations import duration_text, seconds
from edgesweep.records import LevelStatus
from edgesweep_agent.core.budget import (
    LevelCost,
    budget_option,
    more_time,
    nearest,
    remaining_s,
)
from edgesweep_agent.plan import AttachedSpec, SweepPlan
from edgesweep_agent.sweep.ledger import Ledger
from edgesweep_agent.sweep.recorder import Recorders
from edgesweep_agent.sweep.visit import Cell, Terms, Visiting


@pytest.mark.parametrize(
    ("needed", "left", "budget", "text"),
    [
        (240, 60, 120, "needs about 3 min more: --budget 6m"),
        (30, 10, 60, "needs about 20 s more: --budget 90s"),
        (9000, 0, 3600, "needs about 2.5 h more: --budget 4h"),
        # What would have fitted to the second, and did not.
        (10, 10, 20, "needs about 1 s more: --budget 30s"),
    ],
)
def test_a_skip_says_how_much_longer_and_which_budget_would_do(needed, left, budget, text):
    assert more_time(needed, left, budget) == text
    assert "at least" in more_time(needed, left, budget, at_least=True)


@pytest.mark.parametrize("wanted", [1, 89, 91, 130, 5399, 5401, 20_000])
def test_a_budget_that_is_told_can_be_given_and_is_enough(wanted):
    assert wanted <= seconds(budget_option(wanted)) <= wanted * 1.5 + 60


@pytest.mark.parametrize(
    ("length", "text"), [(40, "40 s"), (89.9, "90 s"), (360, "6 min"), (9000, "2.5 h")]
)
def test_durations_for_people(length, text):
    assert duration_text(length) == text


def test_a_level_is_judged_by_the_nearest_one_that_had_answers():
    costs = {level: LevelCost(level, 10, 10.0 * level) for level in (1, 2, 8)}
    assert nearest(costs, 8) is costs[8]
    assert nearest(costs, 64) is costs[8]
    # As near to 2 as to 8: the lower one.
    assert nearest(costs, 4) is costs[2]
    assert nearest({2: LevelCost(2, 0, 30.0)}, 2) is None
    assert nearest({}, 2) is None


def test_the_rest_of_a_level_takes_what_its_first_requests_took():
    assert remaining_s(LevelCost(2, 4, 20.0), 10) == 30.0
    assert remaining_s(LevelCost(2, 4, 20.0), 3) == 0
    assert remaining_s(LevelCost(2, 0, 20.0), 10) is None


def visiting(budget, session=1):
    plan = SweepPlan((AttachedSpec("http://h"),), levels=(1, 2, 4), requests=10, budget=budget)
    ledger = Ledger("r", plan, wire.DEVICE, Recorders(()))
    return ledger, again(ledger, session)


def again(ledger, session):
    terms = Terms(ledger, None, None, 1, anyio.Event(), keep_text=False)
    return Visiting(terms, ledger.plan.contenders[0], session, ledger.plan.shapes(), (1, 2, 4))


def skipped(ledger):
    return {level.concurrency: level.attributes.get("time_budget") for level in ledger.levels}


@pytest.mark.anyio
async def test_each_skipped_level_says_what_it_needs_on_top_of_those_before_it():
    ledger, visit = visiting("60s")
    (shape,) = ledger.plan.shapes()
    # A second a request: 14 s for level 2, and 18 s for level 4.
    visit._costs(Cell(shape, 1))[1] = LevelCost(1, 100, 100.0)
    ledger._began_s -= 59
    await visit._skip([Cell(shape, 2), Cell(shape, 4)], "time_budget")
    assert skipped(ledger) == {
        2: "needs about 13 s more: --budget 80s",
        4: "needs about 31 s more: --budget 2m",
    }
    assert {x.status for x in ledger.levels} == {LevelStatus.SKIPPED}


@pytest.mark.anyio
async def test_a_later_session_knows_what_an_earlier_one_measured():
    ledger, first = visiting("60s")
    (shape,) = ledger.plan.shapes()
    first._costs(Cell(shape, 1))[1] = LevelCost(1, 10, 40.0)
    assert again(ledger, 2)._needed_s(Cell(shape, 1)) == pytest.approx(4.0 * 12)


@pytest.mark.anyio
async def test_of_what_nobody_has_measured_no_figure_is_made_up():
    ledger, visit = visiting("60s")
    (shape,) = ledger.plan.shapes()
    await visit._skip([Cell(shape, 1)], "time_budget")
    assert skipped(ledger) == {1: None}
    visit._costs(Cell(shape, 2))[2] = LevelCost(2, 10, 100.0)
    await visit._skip([Cell(shape, 2)], "time_budget")
    assert skipped(ledger)[2].startswith("needs at least ")
