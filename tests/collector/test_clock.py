"""Which time a record counts for: the rules, without an archive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wire
from edgesweep.records import ClockQuality, Event
from edgesweep_collector.core.clock import (
    BootClock,
    Fixed,
    TimeSource,
    at_last,
    is_plausible,
    on_arrival,
)

S = 10**9
NOW = 1_800_000_000 * S
UNSYNCED, SYNCED, HOLDOVER = ClockQuality.UNSYNCED, ClockQuality.SYNCED, ClockQuality.HOLDOVER
DEVICE, CLOCK_SET = TimeSource.DEVICE, TimeSource.CLOCK_SET
BOUNDED, RECEIVED = TimeSource.BOUNDED, TimeSource.RECEIVED


def envelope(wall_ns, clock=UNSYNCED, mono_ns=50 * S, boot_id="b"):
    fields = {"wall_ns": wall_ns, "clock": clock, "mono_ns": mono_ns, "boot_id": boot_id}
    return wire.enveloped(Event("a", "b"), 1, **fields)


@pytest.mark.parametrize("clock", ClockQuality)
@pytest.mark.parametrize(
    ("wall_ns", "is_so"),
    [
        (NOW - 1000 * S, True),
        (NOW + 300 * S, True),
        (NOW + 301 * S, False),
        (1_704_067_200 * S, True),
        (1_704_067_200 * S - 1, False),
        (12 * S, False),
        (-(2**63), False),
        (2**63 - 1, False),
    ],
)
def test_a_plausible_clock_counts_whatever_it_is_called(wall_ns, is_so, clock):
    assert is_plausible(wall_ns, NOW) == is_so
    expected = Fixed(wall_ns, DEVICE) if is_so else None
    assert on_arrival(envelope(wall_ns, clock), NOW, BootClock()) == expected


def test_what_a_clock_was_set_to_counts_for_what_came_before():
    boot = BootClock().set_to(NOW - 100 * S, synced=True)
    assert on_arrival(envelope(2 * S), NOW, boot) == Fixed(NOW - 50 * S, CLOCK_SET)
    # A clock that was guessed (from a file, by the time of the last shutdown) is corrected too.
    stale = envelope(NOW - 9 * 86400 * S)
    assert on_arrival(stale, NOW, boot) == Fixed(NOW - 50 * S, CLOCK_SET)
    own = envelope(NOW - 9 * 86400 * S, HOLDOVER)
    assert on_arrival(own, NOW, boot) == Fixed(NOW - 9 * 86400 * S, DEVICE)


def test_a_synchronised_clock_tells_the_offset_by_itself():
    boot = BootClock().heard(envelope(NOW - 10 * S, SYNCED, mono_ns=90 * S), NOW)
    assert (boot.offset_ns, boot.synced) == (NOW - 100 * S, True)
    assert on_arrival(envelope(2 * S), NOW, boot) == Fixed(NOW - 50 * S, CLOCK_SET)
    for not_told in (envelope(NOW - S, HOLDOVER), envelope(9 * S, SYNCED)):
        assert BootClock().heard(not_told, NOW).offset_ns is None


def test_a_clock_set_by_hand_counts_only_at_last():
    boot = BootClock(bound_ns=NOW - 60 * S).set_to(NOW - 100 * S, synced=False)
    assert on_arrival(envelope(2 * S), NOW, boot) is None
    assert at_last(50 * S, NOW, boot) == Fixed(NOW - 50 * S, CLOCK_SET)
    synced = boot.set_to(NOW - 70 * S, synced=True)
    assert synced.set_to(NOW - 100 * S, synced=False) == synced


def test_without_an_offset_the_arrivals_of_the_boot_are_the_bound():
    boot = BootClock()
    for mono_s, received_s in ((10, 400), (20, 30), (40, 500)):
        received_ns = NOW + received_s * S
        boot = boot.heard(envelope(2 * S, mono_ns=mono_s * S), received_ns)
    # The second was delivered ten seconds after it was made.
    assert boot.bound_ns == NOW + 10 * S
    assert at_last(10 * S, NOW + 400 * S, boot) == Fixed(NOW + 20 * S, BOUNDED)
    assert at_last(20 * S, NOW + 30 * S, boot) == Fixed(NOW + 30 * S, RECEIVED)
    assert at_last(40 * S, NOW + 500 * S, boot) == Fixed(NOW + 50 * S, BOUNDED)


@pytest.mark.parametrize(("mono_ns", "boot_id"), [(0, "b"), (-5, "b"), (2**63 - 1, "b"), (9, "")])
def test_without_an_uptime_or_a_boot_there_is_nothing_to_wait_for(mono_ns, boot_id):
    lost = envelope(2 * S, mono_ns=mono_ns, boot_id=boot_id)
    assert on_arrival(lost, NOW, BootClock()) == Fixed(NOW, RECEIVED)


def test_an_offset_that_cannot_be_is_not_used():
    boot = BootClock(bound_ns=NOW - 60 * S).set_to(NOW + 900 * S, synced=True)
    assert on_arrival(envelope(2 * S), NOW, boot) is None
    assert at_last(50 * S, NOW, boot) == Fixed(NOW - 10 * S, BOUNDED)
    assert BootClock().set_to(2**62 + 1, synced=True) == BootClock()


ANY = st.integers(-(2**63), 2**63 - 1)


@given(ANY, ANY, st.sampled_from(ClockQuality), st.one_of(ANY, st.none()), st.booleans())
def test_no_time_is_before_2024_or_after_it_came(wall_ns, mono_ns, clock, offset_ns, synced):
    boot = BootClock()
    if offset_ns is not None:
        boot = boot.set_to(offset_ns, synced=synced)
    one = envelope(wall_ns, clock, mono_ns)
    boot = boot.heard(one, NOW)
    for known in (boot.bound_ns, boot.offset_ns):
        assert known is None or -(2**63) <= known < 2**63
    fixed = on_arrival(one, NOW, boot) or at_last(mono_ns, NOW, boot)
    assert is_plausible(fixed.wall_ns, NOW)
    if fixed.source in {BOUNDED, RECEIVED}:
        assert fixed.wall_ns <= NOW


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=9, unique=True), st.data())
def test_the_order_of_a_boot_is_kept(uptimes, data):
    boot, came = BootClock(), []
    for mono_s in sorted(uptimes):
        received_ns = NOW + (mono_s + data.draw(st.integers(0, 10**5))) * S
        boot = boot.heard(envelope(mono_s * S, mono_ns=mono_s * S), received_ns)
        came.append((mono_s * S, received_ns))
    fixed = [at_last(mono_ns, received_ns, boot).wall_ns for mono_ns, received_ns in came]
    assert fixed == sorted(fixed)
    assert all(wall >= NOW + mono for wall, (mono, _) in zip(fixed, came, strict=True))
