from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesweep.delivery import Delivery, Parcel, Policy
from edgesweep.envelope import Ack, AckStatus, to_ranges

EPOCH = 7


def parcel(seq: int, size: int = 10) -> Parcel:
    return Parcel((EPOCH, seq), "level", bytes(size))


def ack(*ranges: tuple[int, int], status: AckStatus = AckStatus.STORED, **more: float) -> Ack:
    return Ack("d1", EPOCH, ranges, status, **more)  # type: ignore[arg-type]


def machine(**policy: float) -> Delivery:
    return Delivery(jitter=lambda: 0.0, policy=Policy(**policy))  # type: ignore[arg-type]


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
    assert seqs(delivery.due(0.0)) == [1]
    delivery.acked(ack((1, 1)), 1.0)
    assert delivery.offer([parcel(2, 60), parcel(3, 60)], 1.0) == 1


def test_an_ack_opens_the_window_and_names_what_may_be_deleted():
    delivery = machine(window_count=2)
    backlog = [parcel(n) for n in range(1, 5)]
    delivery.offer(backlog, 0.0)
    delivery.due(0.0)
    assert delivery.acked(ack((2, 2)), 1.0).delivered == ((EPOCH, 2),)
    delivery.offer([p for p in backlog if p.key[1] != 2], 1.0)
    assert seqs(delivery.due(1.0)) == [3]


@pytest.mark.parametrize(
    ("status", "delivered", "rejected"),
    [
        (AckStatus.STORED, 2, 0),
        (AckStatus.DUPLICATE, 2, 0),
        (AckStatus.REJECTED, 0, 2),
        (AckStatus.RETRY, 0, 0),
    ],
)
def test_settlement_by_status(status, delivered, rejected):
    delivery = machine()
    delivery.offer([parcel(1), parcel(2)], 0.0)
    settled = delivery.acked(ack((1, 9), status=status), 0.0)
    assert (len(settled.delivered), len(settled.rejected)) == (delivered, rejected)


def test_retry_waits_as_long_as_the_collector_asked():
    delivery = machine()
    delivery.offer([parcel(1)], 0.0)
    delivery.due(0.0)
    delivery.acked(ack((1, 1), status=AckStatus.RETRY, retry_after_s=30.0), 1.0)
    assert delivery.due(30.9) == ()
    assert seqs(delivery.due(31.0)) == [1]


def test_an_ack_of_another_epoch_settles_nothing():
    delivery = machine()
    delivery.offer([parcel(1)], 0.0)
    assert delivery.acked(Ack("d1", EPOCH + 1, ((1, 1),), AckStatus.STORED), 0.0).delivered == ()
    assert delivery.in_flight == 1


def test_resends_after_a_doubling_pause_and_at_once_after_a_reconnect():
    delivery = machine(resend_s=10.0, resend_max_s=25.0)
    delivery.offer([parcel(1)], 0.0)
    sent, now = [], 0.0
    for _ in range(4):
        assert seqs(delivery.due(now)) == [1]
        sent.append(now)
        now = delivery.next_due_s() or 0.0
    assert sent == [0.0, 10.0, 30.0, 55.0]
    delivery.disconnected()
    assert seqs(delivery.due(56.0)) == [1]


def test_backoff_doubles_with_full_jitter_and_resets_only_after_an_ack():
    delivery = Delivery(jitter=lambda: 1.0, policy=Policy(backoff_s=1.0, backoff_max_s=8.0))
    assert [delivery.disconnected() for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, 8.0]
    delivery.offer([parcel(1)], 0.0)
    delivery.acked(ack((1, 1)), 0.0)
    assert delivery.disconnected() == 1.0


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
            delivery.disconnected()
        delivery.offer(list(spool.values()), now)
        assert delivery.in_flight <= window
        for sent in delivery.due(now):
            if rng.random() < 0.3:
                continue
            stored.add(sent.key[1])
            if rng.random() < 0.3:
                continue
            for key in delivery.acked(ack((sent.key[1], sent.key[1])), now).delivered:
                assert key[1] in stored
                del spool[key[1]]
    assert stored == set(range(1, 51))
    assert spool == {}
