"""A soak ends when the temperature stands still, and not before five minutes."""

from __future__ import annotations

import pytest

from edgesweep_agent.core.soak import MOST_S, WINDOW_S, soak_state


def rising(until_s, end_c=70.0, settled_at_s=600.0, step_s=30.0):
    steps = range(int(until_s // step_s) + 1)
    return [(n * step_s, end_c - 30.0 * max(0.0, 1 - n * step_s / settled_at_s)) for n in steps]


@pytest.mark.parametrize(
    ("course", "done"),
    [
        ([], False),
        (rising(60), False),
        (rising(600), False),  # it has just stopped to rise
        (rising(870), False),  # 1.5 degC in the window
        (rising(900), True),
        ([(0.0, 70.0), (WINDOW_S - 1, 70.0)], False),
        ([(0.0, 70.0), (WINDOW_S, 70.9)], True),
        ([(0.0, 70.0), (WINDOW_S, 71.0)], False),
        ([(0.0, 40.0), (MOST_S - 30, 60.0), (MOST_S, 80.0)], True),
        ([(0.0, None), (WINDOW_S - 1, None)], False),
        ([(0.0, None), (WINDOW_S, None)], True),
    ],
)
def test_a_soak_ends_when_nothing_moves(course, done):
    assert soak_state(course).done is done


def test_what_it_came_to_is_said():
    assert soak_state([(0.0, None), (300.0, None)]).text == "no temperature sensor: 300 s of load"
    assert "0.5 degC in 300 s" in soak_state([(0.0, 70.0), (300.0, 70.5)]).text
