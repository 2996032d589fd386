"""Durations and numbers as people write them."""

from __future__ import annotations

import pytest

from edgesweep.durations import finite, seconds, seconds_or_zero


@pytest.mark.parametrize(
    ("text", "length_s"),
    [("5", 5), ("5s", 5), ("2m", 120), ("1.5h", 5400), ("90d", 7_776_000), (" 1 m ", 60)],
)
def test_what_is_a_duration(text, length_s):
    assert seconds(text) == seconds_or_zero(text) == length_s


@pytest.mark.parametrize(
    "text",
    ["", "soon", "inf", "nan", "-5", "1e3", "5 weeks", "\N{ARABIC-INDIC DIGIT FIVE}s", "5,0s"],
)
def test_what_is_none(text):
    for read in (seconds, seconds_or_zero):
        with pytest.raises(ValueError, match="is no duration: write 90s, 15m, 2h or 30d"):
            read(text)


@pytest.mark.parametrize("text", ["36501d", "9" * 400])
def test_what_no_clock_can_be_asked_to_wait_is_refused(text):
    with pytest.raises(ValueError, match="more than a hundred years"):
        seconds(text)


def test_no_time_at_all_is_only_taken_where_it_has_a_meaning():
    assert seconds_or_zero("0s") == 0
    with pytest.raises(ValueError, match="no time at all"):
        seconds("0")


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e999", "", "x"])
def test_a_number_is_finite(text):
    assert finite("-0.5") == -0.5
    with pytest.raises(ValueError, match="no finite number"):
        finite(text)
