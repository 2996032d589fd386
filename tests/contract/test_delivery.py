from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesweep.delivery import Delivery, Parcel, Policy, Reconnect
from edgesweep.envelope import Ack, AckStatus, to_ranges

EPOCH = 7
KEYS = [(EPOCH, seq) for seq in range(50)]


def parcel(seq: int, size: int = 10) -> Parcel:
    return Parcel((EPOCH, seq), "level", bytes(size))


def ack(*ranges: tuple[int, int], status: AckStatus = AckStatus.STORED, **more: float) -> Ack:
    return Ack("d1", EPOCH, ranges, status, **more)  # type: ignore[arg-type]


def machine(jitter: float = 0.0, **policy: float) -> Delivery:
    return Delivery(jitter=lambda: jitter, policy=Policy(**policy))  # type: ignore[arg-type]


def sending(*numbers: int, now_s: float = 0.0, size: int = 10, **policy: float) -> Delivery:
    """A machine that has sent some envelopes on its first connection."""
    delivery = machine(**policy)
    delivery.connected(now_s)
    delivery.offer([parcel(n, size) for n in numbers], now_s)
    send(delivery, now_s)
    return delivery


def send(delivery: Delivery, now_s: float) -> list[int]:
    """What a transport does that takes everything at once."""
    parcels = delivery.due(now_s)
    for one in parcels:
        delivery.sent(one.key, now_s)
    return seqs(parcels)


def seqs(parcels: tuple[Parcel, ...]) -> list[int]:
    return [p.key[1] for p in parcels]


def test_sends_in_order_up_to_the_count_window():
    delivery = machine(window_count=3)
    delivery.offer([parcel(n) for n in range(1, 6)], now_s=0.0)
    assert seqs(delivery.due(0.0)) == [1, 2, 3]
    assert delivery.due(0.0) == ()


def test_the_byte_window_bounds_but_one_large_parcel_still_goes_alone():
    delivery = machine(window_bytes=100)
    assert delivery.offer([parcel(1, 1000), parcel(2)], 0.0) == 1
    assert delivery.room == (0, 0)
    assert seqs(delivery.due(0.0)) == [1]
    delivery.acked(ack((1, 1)), 1.0)
    assert delivery.room == (100, 100)
    assert delivery.offer([parcel(2, 60), parcel(3, 60)], 1.0) == 1
    assert delivery.room == (99, 40)


def test_an_ack_opens_the_window_and_names_what_may_be_deleted():
    delivery = machine(window_count=2)
    backlog = [parcel(n) for n in range(1, 5)]
    delivery.offer(backlog, 0.0)
    delivery.due(0.0)
    assert delivery.acked(ack((2, 2)), 1.0).delivered == ((EPOCH, 2),)
    delivery.offer([p for p in backlog if p.key[1] != 2], 1.0)
    assert seqs(delivery.due(1.0)) == [3]


@pytest.mark.parametrize(
    ("status", "delivered", "rejected", "again"),
    [
        (AckStatus.STORED, 2, 0, ()),
        (AckStatus.DUPLICATE, 2, 0, ()),
        (AckStatus.REJECTED, 0, 2, ()),
        (AckStatus.RETRY, 0, 0, ()),
        (AckStatus.RESEND, 0, 0, ((3, 9),)),
    ],
)
def test_settlement_by_status(status, delivered, rejected, again):
    delivery = machine()
    delivery.offer([parcel(1), parcel(2)], 0.0)
    settled = delivery.acked(ack((1, 9), status=status), 0.0)
    assert (len(settled.delivered), len(settled.rejected)) == (delivered, rejected)
    assert settled.again == again


def test_retry_waits_as_long_as_the_collector_asked():
    delivery = sending(1)
    delivery.acked(ack((1, 1), status=AckStatus.RETRY, retry_after_s=30.0), 1.0)
    assert delivery.due(30.9) == ()
    assert seqs(delivery.due(31.0)) == [1]


def test_an_ack_of_another_epoch_settles_nothing():
    delivery = machine()
    delivery.offer([parcel(1)], 0.0)
    assert delivery.acked(Ack("d1", EPOCH + 1, ((1, 1),), AckStatus.STORED), 0.0).delivered == ()
    assert len(delivery.in_flight) == 1


def test_resends_after_a_doubling_pause_and_at_once_after_a_reconnect():
    delivery = machine(resend_s=10.0, resend_max_s=25.0)
    delivery.offer([parcel(1)], 0.0)
    sent, now = [], 0.0
    for _ in range(4):
        assert send(delivery, now) == [1]
        sent.append(now)
        now = delivery.next_due_s() or 0.0
    assert sent == [0.0, 10.0, 30.0, 55.0]
    delivery.disconnected(56.0)
    assert send(delivery, 56.0) == [1]
    # Another connection has heard nothing of a slow one before it.
    assert delivery.next_due_s() == 66.0


# -- a slow line -----------------------------------------------------------------------


def test_an_ack_starts_the_wait_anew_for_what_was_sent_after_what_it_covers():
    delivery = sending(1, 2, 3, resend_s=10.0)
    delivery.acked(ack((2, 2)), 8.0)
    assert send(delivery, 10.0) == [1]
    assert delivery.due(17.9) == ()
    assert send(delivery, 18.0) == [3]


@pytest.mark.parametrize("each_s", [0.5, 2.0])
def test_a_line_that_takes_longer_than_the_resend_is_not_filled_with_second_copies(each_s):
    """100 envelopes take 50 or 200 s to pass, one behind the other; each is sent once."""
    delivery = machine(resend_s=10.0, stalled_s=60.0)
    delivery.connected(0.0)
    delivery.offer([parcel(n) for n in range(100)], 0.0)
    now, copies = 0.0, 0
    while delivery.in_flight:
        for one in delivery.due(now):
            copies += 1
            now += each_s
            delivery.sent(one.key, now)
            delivery.acked(ack((one.key[1], one.key[1])), now)
            assert not delivery.stalled(now)
    assert copies == 100


# -- asked for again -------------------------------------------------------------------


def test_what_is_asked_for_again_is_due_at_once_if_it_is_on_its_way():
    delivery = sending(1, 2, 3)
    settled = delivery.acked(ack((2, 2), status=AckStatus.RESEND), 1.0)
    assert (settled.again, settled.delivered) == ((), ())
    assert seqs(delivery.due(1.0)) == [2]


@pytest.mark.parametrize(
    ("asked", "in_window", "left"),
    [
        (((1, 5),), (3,), ((1, 2), (4, 5))),
        (((1, 5),), (1, 5), ((2, 4),)),
        (((1, 2), (8, 8)), (1, 2), ((8, 8),)),
        (((4, 4),), (4,), ()),
        (((1, 2**62),), (), ((1, 2**62),)),
    ],
)
def test_the_rest_is_looked_for_elsewhere(asked, in_window, left):
    delivery = sending(*in_window)
    assert delivery.acked(ack(*asked, status=AckStatus.RESEND), 1.0).again == left


# -- a broker with nobody to pass it to ------------------------------------------------


def test_while_nobody_subscribes_one_envelope_asks_alone_and_less_and_less_often():
    delivery = sending(1, 2, 3, backoff_s=1.0, resend_s=8.0)
    delivery.connected(0.0)
    for key in KEYS[1:4]:
        delivery.unheard(key, 0.0)
    asked, now = [], 0.0
    while now < 30.0:
        for seq in send(delivery, now):
            asked.append((now, seq))
            delivery.unheard((EPOCH, seq), now)
        now = delivery.next_due_s()
    # Without jitter half of each pause is left: 1, 2, 4, then 8 s for ever.
    assert [at for at, _ in asked] == [0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5]
    assert {seq for _, seq in asked} == {1}
    assert not delivery.stalled(1000.0)


@pytest.mark.parametrize("by", ["a PUBACK", "an ack"])
def test_all_goes_at_once_when_somebody_subscribes(by):
    delivery = sending(1, 2, 3)
    for key in KEYS[1:4]:
        delivery.unheard(key, 0.0)
    assert send(delivery, 0.5) == [1]
    if by == "an ack":
        delivery.acked(ack((1, 1)), 0.6)
    else:
        assert delivery.heard()
        assert not delivery.heard()
    assert send(delivery, 0.6) == [2, 3]


def test_another_connection_asks_with_one_envelope_too():
    delivery = sending(1, 2, 3)
    delivery.unheard((EPOCH, 1), 0.0)
    delivery.disconnected(1.0)
    assert send(delivery, 1.0) == [1]
    assert delivery.next_due_s() > 1.0


# -- sizes -----------------------------------------------------------------------------


def test_who_is_too_large_is_found_among_what_was_sent():
    delivery = machine()
    delivery.offer([parcel(1, 70), parcel(2, 90), parcel(3, 500)], 0.0)
    assert delivery.largest() is None
    delivery.due(0.0)
    for key in KEYS[1:3]:
        delivery.sent(key, 0.0)
    assert delivery.largest().key == (EPOCH, 2)
    assert delivery.largest(70).key == (EPOCH, 1)
    assert delivery.largest(77).key == (EPOCH, 2)
    delivery.withdraw((EPOCH, 2))
    delivery.withdraw((EPOCH, 2))
    assert delivery.room[1] == Policy().window_bytes - 570


# -- progress --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("then", "stalled_at"),
    [
        (lambda delivery: None, 60.0),
        (lambda delivery: delivery.acked(ack((1, 1)), 50.0), 110.0),
        (lambda delivery: delivery.acked(ack((1, 3)), 50.0), None),
        # The collector is at work as long as it says so, and an envelope that waits is not lost.
        (lambda delivery: delivery.acked(ack((9, 9), status=AckStatus.RETRY), 50.0), 110.0),
        (
            lambda delivery: delivery.acked(
                ack((1, 3), status=AckStatus.RETRY, retry_after_s=500.0), 50.0
            ),
            None,
        ),
        (lambda delivery: [delivery.unheard(key, 1.0) for key in KEYS[1:4]], None),
    ],
    ids=["silence", "an ack", "all acked", "retry of others", "retry", "no subscriber"],
)
def test_a_connection_on_which_nothing_comes_back_is_noticed(then, stalled_at):
    delivery = sending(1, 2, 3, resend_s=1e6, stalled_s=60.0)
    then(delivery)
    found = next((now for now in range(400) if delivery.stalled(now)), None)
    assert found == stalled_at


def test_an_idle_connection_is_not_stalled():
    delivery = machine()
    delivery.connected(0.0)
    assert not delivery.stalled(1e9)
    delivery.offer([parcel(1)], 0.0)
    assert not delivery.stalled(1e9)


def test_the_patience_grows_while_it_is_of_no_use():
    """Or a large envelope on a slow line would begin anew for ever."""
    delivery, patience, now = sending(1, stalled_s=60.0), [], 0.0
    for _ in range(5):
        began = now
        while not delivery.stalled(now):
            now += 1.0
        patience.append(now - began)
        delivery.disconnected(now, useless=True)
        delivery.connected(now)
        send(delivery, now)
    assert patience == [60, 120, 240, 480, 480]
    delivery.acked(ack((9, 9)), now)
    assert delivery.stalled(now + 60.0)


# -- connecting again ------------------------------------------------------------------


def lost(reconnect: Reconnect, *ups_s: float | None) -> list[float]:
    """The pauses after connections that lasted so long, or were not made."""
    pauses, now = [], 0.0
    for up_s in ups_s:
        if up_s is not None:
            reconnect.connected(now)
            now += up_s
        pauses.append(reconnect.lost(now))
        now += pauses[-1]
    return pauses


@pytest.mark.parametrize(
    ("ups_s", "pauses"),
    [
        ([None] * 5, [1, 2, 4, 8, 8]),
        # Connects that go well, and acks on them, change nothing: only time does.
        ([0.1, 3.0, 59.9, 0.1], [1, 2, 4, 8]),
        ([None, None, 60.0, None], [1, 2, 5, 5]),
        ([60.0, None, None, None], [5, 5, 5, 5]),
        ([60.0, None, 0.1, 0.1, 0.1], [5, 5, 2, 4, 8]),
    ],
)
def test_pauses(ups_s, pauses):
    policy = Policy(backoff_s=1.0, backoff_max_s=8.0, stable_s=60.0, spread_s=5.0)
    assert lost(Reconnect(lambda: 1.0, policy), *ups_s) == pauses


def test_half_of_a_pause_is_jitter_and_all_of_it_after_a_stable_connection():
    policy = Policy(backoff_s=8.0, spread_s=15.0, stable_s=60.0)
    assert lost(Reconnect(lambda: 0.0, policy), None, 60.0) == [4.0, 0.0]
    assert lost(Reconnect(lambda: 0.5, policy), None, 60.0) == [6.0, 7.5]


def test_who_asks_to_be_left_alone_is():
    reconnect = Reconnect(lambda: 1.0, Policy())
    assert reconnect.lost(0.0, at_least_s=120.0) == 120.0


def test_a_connection_that_was_of_no_use_is_not_a_good_one_and_not_an_early_end():
    reconnect = Reconnect(lambda: 1.0, Policy())
    reconnect.connected(0.0)
    assert reconnect.lost(1000.0, useless=True) == 1.0
    assert reconnect.early == 0
    assert lost(reconnect, 1.0, 1.0, None) == [2.0, 4.0, 8.0]
    assert reconnect.early == 2
    assert lost(reconnect, 60.0) == [15.0]
    assert reconnect.early == 0


def test_a_connection_that_we_end_ourselves_costs_no_pause():
    delivery = sending(1)
    delivery.left()
    assert not delivery.reconnect.is_stable(1000.0)
    assert send(delivery, 1.0) == [1]
    assert delivery.disconnected(1.0) == 0.5


@pytest.mark.parametrize("seed", range(20))
def test_mqt_03_two_devices_with_one_client_id_do_not_hammer(seed):
    """Each connect throws the other out; both are let in, and acknowledged, every time."""
    rng = random.Random(seed)
    devices = [Delivery(rng.random) for _ in range(2)]
    connects, at = [0, 0], [0.0, 0.01]
    while min(at) < 60.0:
        me = at.index(min(at))
        now, at[me] = at[me], float("inf")
        connects[me] += 1
        devices[me].connected(now)
        devices[me].offer([parcel(connects[me])], now)
        send(devices[me], now)
        devices[me].acked(ack((0, 99)), now)
        if at[1 - me] == float("inf"):
            at[1 - me] = now + devices[1 - me].disconnected(now)
    assert max(connects) <= 7
    assert max(device.reconnect.early for device in devices) >= 3


@pytest.mark.parametrize("seed", range(20))
def test_mqt_04_refused_logins_are_tried_for_ever_at_a_bearable_rate(seed):
    delivery, now, tries = Delivery(random.Random(seed).random), 0.0, 0
    while now < 600.0:
        tries += 1
        now += delivery.disconnected(now)
    assert 12 <= tries <= 40
    # And that was the first try after the broker's users were put right.
    assert now <= 660.0


@pytest.mark.parametrize("outage_s", [0.5, 3.0, 8.0, 16.0, 60.0, 600.0])
def test_mqt_04_a_fleet_comes_back_spread(outage_s):
    """All lose a broker at once that was up for long; it is away for a while."""
    worst = 0
    for seed in range(20):
        rng = random.Random(seed)
        arrivals = [back_s(rng, outage_s) for _ in range(50)]
        worst = max(worst, sum(outage_s <= at < outage_s + 1.0 for at in arrivals))
        assert max(arrivals) <= outage_s + 60.0
    assert worst <= 10


def back_s(rng: random.Random, outage_s: float) -> float:
    """When a device is back that was connected for a day."""
    delivery = Delivery(rng.random)
    delivery.connected(-86_400.0)
    now = delivery.disconnected(0.0)
    while now < outage_s:
        now += delivery.disconnected(now)
    return now


# -- all of it -------------------------------------------------------------------------


@given(st.sets(st.integers(1, 200)))
def test_ranges_cover_exactly_the_given_numbers(numbers):
    ranges = to_ranges(numbers)
    assert {n for first, last in ranges for n in range(first, last + 1)} == numbers
    assert all(b[0] > a[1] + 1 for a, b in itertools.pairwise(ranges))


@given(st.integers(0, 2**32), st.integers(1, 20))
def test_whatever_is_lost_everything_arrives_and_the_window_holds(seed, window):
    """Nothing is settled before the collector has stored it."""
    rng = random.Random(seed)
    delivery = Delivery(jitter=rng.random, policy=Policy(window_count=window))
    spool, stored, now = {n: parcel(n) for n in range(1, 51)}, set(), 0.0
    for _ in range(20_000):
        if not spool:
            break
        now += 1.0
        if rng.random() < 0.05:
            delivery.disconnected(now)
        delivery.offer(list(spool.values()), now)
        assert len(delivery.in_flight) <= window
        for sent in delivery.due(now):
            delivery.sent(sent.key, now)
            if rng.random() < 0.2:
                delivery.unheard(sent.key, now)
                continue
            delivery.heard()
            if rng.random() < 0.3:
                continue
            stored.add(sent.key[1])
            if rng.random() < 0.3:
                continue
            status = rng.choice([AckStatus.STORED, AckStatus.RETRY, AckStatus.RESEND])
            settled = delivery.acked(ack((sent.key[1], sent.key[1]), status=status), now)
            for key in settled.delivered:
                assert key[1] in stored
                del spool[key[1]]
    assert stored == set(range(1, 51))
    assert spool == {}
