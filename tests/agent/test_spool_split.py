from __future__ import annotations

import pytest

from edgesweep import codec, envelope
from edgesweep.records import ClockQuality, Event, Kind, SensorValue, Telemetry
from edgesweep_agent.core.ranges import without
from edgesweep_agent.core.split import UnsplittableError, split
from spooling import sealing


def readings(count, reason=""):
    return tuple(SensorValue(f"sensor_{n}", "degC", n / 4, reason) for n in range(count))


def whole(record):
    fields = {"wall_ns": 5, "mono_ns": 6, "clock": ClockQuality.HOLDOVER, "boot_id": "b"}
    return sealing(record, **fields)[1](2**62, 9)


@pytest.mark.parametrize(("count", "limit"), [(200, 1000), (2, 120), (64, 4000), (1000, 150)])
def test_telemetry_becomes_parts_that_fit_and_say_the_same(count, limit):
    data = whole(Telemetry(readings(count)))
    parts = [
        envelope.decode(seal(2**63 - 1, 2**63 - 9 + n)) for n, seal in enumerate(split(data, limit))
    ]
    assert all(len(envelope.encode(part)) <= limit for part in parts)
    found = [one for part in parts for one in codec.decode(Kind.TELEMETRY, part.payload).readings]
    assert tuple(found) == readings(count)
    assert {(part.wall_ns, part.mono_ns, part.clock, part.boot_id) for part in parts} == {
        (5, 6, ClockQuality.HOLDOVER, "b")
    }
    assert len({part.seq for part in parts}) == len(parts)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (Event("x", "y" * 500), "event of "),
        (Telemetry((*readings(3), SensorValue("x", "1", None, "z" * 900))), "telemetry of "),
    ],
)
def test_what_has_no_parts_is_named_with_its_size(record, says):
    data = whole(record)
    with pytest.raises(
        UnsplittableError, match=f"{says}{len(data)} bytes, and the transport takes 300"
    ):
        split(data, 300)


@pytest.mark.parametrize(
    ("span", "taken", "left"),
    [
        ((1, 9), [], ((1, 9),)),
        ((1, 9), [(1, 9)], ()),
        ((1, 9), [(3, 4), (6, 6)], ((1, 2), (5, 5), (7, 9))),
        ((3, 5), [(1, 3), (5, 99)], ((4, 4),)),
        ((3, 5), [(7, 9)], ((3, 5),)),
        ((3, 5), [(1, 1)], ((3, 5),)),
        ((5, 4), [], ()),
    ],
)
def test_what_is_left_of_a_range(span, taken, left):
    assert without(*span, taken) == left
