"""Whose turn it is, and when a refusal is worth a line: the pure parts of accepting."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from edgesweep_collector.core.refusals import Refusals, Telling
from edgesweep_collector.core.turns import Turns

SENDERS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 40)), max_size=12)


@given(SENDERS, st.integers(1, 20), st.integers(1, 8))
def test_everything_comes_out_once_and_each_senders_in_order(puts, most, share):
    turns = Turns(10_000, 10_000, share)
    put = {}
    for sender, count in puts:
        for _ in range(count):
            item = (sender, len(put.setdefault(sender, [])))
            put[sender].append(item)
            turns.put(sender, item, 1)
    taken = []
    while group := turns.take(most):
        assert len(group) <= most
        assert max(Counter(sender for sender, _ in group).values()) <= share
        taken += group
    for sender, items in put.items():
        assert [item for item in taken if item[0] == sender] == items


def test_senders_are_served_in_turn():
    turns = Turns(100, 1000, 16)
    for n in range(40):
        turns.put("flood", ("flood", n), 1)
    for sender in "abc":
        turns.put(sender, (sender, 0), 1)
    group = [sender for sender, _ in turns.take(6)]
    assert group == ["flood", "a", "b", "c", "flood", "flood"]
    turns.put("a", ("a", 1), 1)
    assert [sender for sender, _ in turns.take(3)] == ["flood", "a", "flood"]


def test_a_line_has_an_end_and_the_queue_a_size():
    turns = Turns(128, 1000, 16)
    while turns.has_room("flood"):
        turns.put("flood", 0, 7)
    assert len(turns.take(999)) == 16
    for other in range(60):
        turns.put(other, 0, 7)
    # Full: another one of those who wait has no room, the first of any other has.
    assert not turns.has_room("flood")
    assert not turns.has_room(0)
    assert turns.has_room("new")
    while turns.take(64):
        pass
    assert turns.has_room("flood")


def test_a_refusal_is_told_at_once_and_then_once_in_a_while():
    refusals = Refusals(60.0)
    told = [refusals.refused("d", second) for second in range(125)]
    assert [one for one in told if one] == [Telling(1, 0), Telling(61, 59), Telling(121, 59)]
    refusals.accepted("d")
    assert refusals.in_a_row("d") == 0
    assert refusals.refused("d", 125) is None
    assert refusals.refused("d", 185) == Telling(2, 5)
    assert refusals.refused("other", 0.0) == Telling(1, 0)


def test_the_count_of_senders_is_bounded():
    refusals = Refusals(60.0)
    for sender in range(5000):
        refusals.refused(sender, 0.0)
    assert refusals.in_a_row(0) == 0
    assert refusals.in_a_row(4999) == 1
