"""What is made of requests that were under way when a level was cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgesweep_agent.core.budget import smaller
from edgesweep_agent.core.exchange import Exchange
from edgesweep_agent.core.pace import Pace, is_hung, is_odd, pace_of, share_done, silence_s
from edgesweep_agent.core.stream import to_sample
from streams import delta

S = 1_000_000_000


def cut(*texts_s, sent_s=10, ended_s=70):
    """A request that was sent, had a token at each instant, and was cancelled."""
    return Exchange(
        index=0,
        t_sched_ns=sent_s * S,
        t_send_ns=sent_s * S,
        t_headers_ns=round(texts_s[0] * S) if texts_s else None,
        status=200 if texts_s else None,
        headers=(("content-type", "text/event-stream"),) if texts_s else (),
        pieces=tuple((round(at * S), delta(content="x ")) for at in texts_s),
        t_end_ns=ended_s * S,
        ending="cancelled",
    )


def sample(*texts_s, **how):
    return to_sample(cut(*texts_s, **how), concurrency=1)


def test_a_cut_request_tells_how_long_the_whole_would_have_taken():
    slow = sample(16, 18, 20, 22)
    pace = pace_of([slow, sample()])
    assert pace == Pace(first_s=6.0, token_s=2.0)
    assert pace.request_s(32) == 68.0
    assert share_done(slow, 32) == pytest.approx(60 / 68)


def test_one_token_and_a_long_wait_is_slow_at_least():
    assert pace_of([sample(20)]) == Pace(first_s=10.0, token_s=50.0)


def test_without_a_token_nothing_is_made_up():
    assert pace_of([sample()]) is None
    assert share_done(sample(), 32) == 0


@pytest.mark.parametrize(
    ("exchanges", "seconds"),
    [
        ((), 100),
        ((cut(),), 60),
        ((cut(20, 30),), 40),
        ((cut(), cut(20, 69)), 1),
        # One that ended was heard until then.
        ((replace(cut(20), ending="complete", t_end_ns=40 * S), cut()), 30),
        ((cut(sent_s=50), replace(cut(20), ending="complete", t_end_ns=40 * S)), 20),
        # One that was given up after a wait was not.
        ((cut(sent_s=20), replace(cut(), ending="timeout", t_end_ns=60 * S)), 50),
        # Nothing was under way: nobody owed a byte.
        ((replace(cut(20), ending="complete", t_end_ns=40 * S),), 0),
    ],
)
def test_a_silence_is_from_the_last_byte_of_any_request(exchanges, seconds):
    assert silence_s(exchanges, began_ns=5 * S, ended_ns=105 * S) == seconds


@pytest.mark.parametrize(
    ("silent_s", "beginning_s", "hung"),
    [(108, 0.1, True), (15, 0.1, False), (108, 30.0, False), (121, 30.0, True)],
)
def test_a_slow_server_is_not_said_to_hang(silent_s, beginning_s, hung):
    assert is_hung(silent_s, beginning_s) is hung


@pytest.mark.parametrize(
    ("silent_s", "beginning_s", "odd"),
    [(1.9, 0.1, False), (2.1, 0.1, True), (20, 12.0, False), (25, 12.0, True)],
)
def test_a_silence_is_told_where_an_answer_should_have_begun(silent_s, beginning_s, odd):
    assert is_odd(silent_s, beginning_s) is odd


@pytest.mark.parametrize(
    ("room_s", "found"),
    [
        # A request of 32 tokens takes 68 s, of 16 36 s, of 8 20 s: 13 of them, or 5.
        (530, (11, 16)),
        (300, (11, 8)),
        (200, (3, 16)),
        (115, (3, 8)),
        (60, None),
    ],
)
def test_the_nearest_smaller_level_that_goes_into_the_time(room_s, found):
    assert smaller(Pace(6.0, 2.0), room_s, 1, requests=11, tokens=32) == found


def test_where_answers_cannot_be_shorter_requests_are_fewer():
    pace = Pace(6.0, 2.0)
    assert smaller(pace, 400, 1, requests=11, tokens=32, shorter=()) == (3, 32)
    assert smaller(pace, 300, 1, requests=11, tokens=32, shorter=()) is None
