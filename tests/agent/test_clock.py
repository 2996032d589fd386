from __future__ import annotations

import pytest

from edgesweep import events
from edgesweep.records import ClockQuality
from edgesweep_agent.core.clock import Known, Look

S = 10**9
NTP_S = 1_767_225_600


def look(uptime_s, wall_s, *, synced=False):
    return Look(round(wall_s * S), round(uptime_s * S), synced)


def told(*looks, known=None):
    """The offsets, in seconds, that a collector is told of in the course of some looks."""
    found = []
    known = known or Known(looks[0].offset_ns)
    for one in looks:
        known, event = known.seen(one)
        if event is not None:
            found.append(events.clock_offset_ns(event) / S)
    return found


@pytest.mark.parametrize(
    ("looks", "offsets"),
    [
        pytest.param([look(10, 12), look(20, 22)], [], id="in 1970 nothing is known"),
        pytest.param(
            [look(10, 12), look(45, NTP_S, synced=True), look(50, NTP_S + 5, synced=True)],
            [NTP_S - 45],
            id="told once when NTP answers",
        ),
        pytest.param([look(10, NTP_S, synced=True)], [NTP_S - 10], id="synchronised at the start"),
        pytest.param(
            [look(10, 12), look(20, NTP_S)], [NTP_S - 20], id="set by hand, without a word from NTP"
        ),
        pytest.param([look(10, 12), look(20, 1000)], [], id="set to another time of 1970"),
        pytest.param(
            [look(10, NTP_S, synced=True), look(20, NTP_S + 3610, synced=True)],
            [NTP_S - 10, NTP_S + 3590],
            id="set again by an hour",
        ),
        pytest.param(
            [look(10, NTP_S, synced=True), look(86_410, NTP_S + 86_400.1, synced=True)],
            [NTP_S - 10],
            id="slewed by a tenth of a second in a day",
        ),
    ],
)
def test_what_a_collector_is_told(looks, offsets):
    assert told(*looks) == pytest.approx(offsets)


def test_slow_drift_adds_up_to_a_step_that_is_told_once():
    drifting = [look(t, NTP_S + t + 0.2 * t / 10, synced=True) for t in range(0, 60, 10)]
    assert len(told(*drifting)) == 2


def test_a_daemon_that_starts_again_in_a_boot_it_has_told_of_says_nothing():
    one = look(100, NTP_S, synced=True)
    assert told(one, known=Known(one.offset_ns, told=True)) == []


def test_the_quality_remembers_that_there_was_a_time_server():
    known = Known(0)
    assert known.quality(look(1, 1)) is ClockQuality.UNSYNCED
    known, _ = known.seen(look(2, NTP_S, synced=True))
    assert known.quality(look(3, NTP_S, synced=True)) is ClockQuality.SYNCED
    assert known.quality(look(99, NTP_S)) is ClockQuality.HOLDOVER
