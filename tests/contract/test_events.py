from __future__ import annotations

import pytest

from edgesweep import events
from edgesweep.envelope import WireError
from edgesweep.events import Dropped
from edgesweep.records import Event


@pytest.mark.parametrize(
    "dropped",
    [
        Dropped(0x7FFF_FFFF_FFFF_FFFF, ((1, 3), (9, 9)), {"telemetry": 4}, "full"),
        Dropped(1, (), {"telemetry": 2, "heartbeat": 1}, "full"),
        Dropped(1, ((5, 5),), {}, "damaged"),
    ],
)
def test_dropped_records_come_back_as_they_were_told(dropped):
    assert events.dropped_records(events.records_dropped(dropped)) == dropped


def test_the_message_counts_by_kind_or_else_by_numbers():
    assert events.records_dropped(Dropped(1, (), {"telemetry": 2}, "full")).message == (
        "2 records were dropped: full"
    )
    assert "5 records" in events.records_dropped(Dropped(1, ((1, 5),), {}, "damaged")).message


@pytest.mark.parametrize("text", ["x", "5-1", "0-3", "1-", "-1", "1-99999999999999999999", "1,,x"])
def test_what_are_no_ranges(text):
    with pytest.raises(ValueError):  # noqa: PT011 - int() has its own words
        events.parsed_ranges(text)


def test_an_event_of_another_form_is_refused_with_its_name():
    with pytest.raises(WireError, match="records_dropped"):
        events.dropped_records(Event("records_dropped", "", {"epoch": "zz", "ranges": ""}))
    with pytest.raises(WireError, match="offset_ns"):
        events.clock_offset_ns(Event("clock_set", ""))


def test_an_offset_comes_back():
    assert events.clock_offset_ns(events.clock_set(1_767_225_555 * 10**9, -5)) == (
        1_767_225_555 * 10**9
    )
    assert "-0.000 s" in events.clock_set(1, -5).message


def test_what_a_device_has_no_longer_has_the_form_of_a_drop():
    told = events.dropped_records(events.resend_unavailable(3, ((1, 2),)))
    assert (told.epoch, told.ranges) == (3, ((1, 2),))
