"""Orders that do not let time look like concurrency."""

from __future__ import annotations

import pytest

from edgesweep_agent.core.schedule import CAPTURE_STEPS, Visit, inside_brackets, level_order, visits


@pytest.mark.parametrize(
    ("contenders", "sessions", "said"),
    [
        (2, 3, "AB BA AB"),
        (2, 1, "AB"),
        (1, 3, "A A A"),
        (3, 2, "ABC CBA"),
    ],
)
def test_sessions_alternate(contenders, sessions, said):
    order = visits(contenders, sessions)
    by_session = [
        "".join("ABC"[v.contender] for v in order if v.session == s) for s in range(1, sessions + 1)
    ]
    assert " ".join(by_session) == said
    assert order[0] == Visit(0, 1)


def test_levels_are_shuffled_by_seed_and_session_alone():
    levels = (1, 2, 4, 8, 16, 32)
    assert level_order(levels, 7, 1) == level_order(levels, 7, 1)
    orders = {level_order(levels, 7, session) for session in range(1, 9)}
    assert len(orders) > 5
    assert all(sorted(order) == list(levels) for order in orders)


@pytest.mark.parametrize(
    ("a", "b", "further"),
    [
        ({1: 9, 2: 9, 4: 9, 8: 9}, {1: 5, 2: 8, 4: 12, 8: 20}, (3,)),
        ({1: 9, 8: 9}, {1: 5, 8: 20}, (3,)),
        ({1: 9, 2: 9}, {1: 5, 2: 20}, ()),  # nothing lies between neighbours
        ({1: 9, 4: 9}, {1: 5, 4: 8}, ()),  # nobody is overtaken
        ({1: 9, 4: None, 8: 9}, {1: 5, 4: 8, 8: 20}, (3,)),
        ({1: 9, 16: 9, 32: 99}, {1: 5, 16: 20, 32: 20}, (4, 23)),
        ({}, {}, ()),
    ],
)
def test_a_second_pass_goes_inside_the_bracket(a, b, further):
    assert inside_brackets([a, b]) == further
    assert inside_brackets([b, a]) == further


def test_capture_steps_within_the_bracket_get_both_sides():
    found = inside_brackets([{4: 9, 16: 9}, {4: 5, 16: 20}], steps=CAPTURE_STEPS)
    assert found == (8, 9)
