from __future__ import annotations

import pytest

from engine_server import Response, Script
from load_levels import DONE, SSE, fly
from streams import delta

STEADY = Script(ttft_ms=30, tpot_ms=1, tokens=2)


def burst_of(ms):
    return Response(headers=SSE, frames=((ms, delta(content="a", finish="stop") + DONE),))


def warm(times_ms, warmup, *, concurrency=2, **fields):
    script = Script(responses=tuple(burst_of(ms) for ms in times_ms), ttft_ms=30, tpot_ms=1,
                    tokens=2)  # fmt: skip
    return fly(script, 1, concurrency=concurrency, warmup=warmup, **fields)


def test_two_bursts_that_agree_end_the_warm_up():
    _, ended, server, _ = fly(STEADY, 1, concurrency=3, warmup=30, warmup_agree=0.5)
    assert (ended.n_warmup, ended.warmup_agreed) == (6, True)
    assert [0.03 <= makespan < 0.3 for makespan in ended.warmup_burst_s] == [True, True]
    assert len(server.timeline) == 7


def test_a_slow_first_burst_takes_a_third():
    _, ended, _, _ = warm([300, 300, 30, 30, 30, 30], 20, warmup_agree=0.5)
    assert (ended.n_warmup, len(ended.warmup_burst_s), ended.warmup_agreed) == (6, 3, True)
    assert ended.warmup_burst_s[0] > 0.3 > ended.warmup_burst_s[1]


@pytest.mark.parametrize(
    ("warmup", "bursts"), [(0, 0), (1, 0), (2, 1), (3, 1)], ids=["none", "part", "one", "one and"]
)
def test_too_few_bodies_cannot_agree(warmup, bursts):
    _, ended, _, _ = warm([], warmup)
    assert (ended.n_warmup, len(ended.warmup_burst_s), ended.warmup_agreed) == (
        warmup, bursts, False,
    )  # fmt: skip


def test_the_bodies_bound_a_warm_up_that_does_not_settle():
    _, ended, _, _ = warm([1, 1, 120, 120, 1, 1], 6, warmup_agree=0.2)
    assert (ended.n_warmup, len(ended.warmup_burst_s), ended.warmup_agreed) == (6, 3, False)


def test_failures_never_agree():
    samples, ended, _, _ = fly(Script(loading_s=60), 1, concurrency=2, warmup=8, warmup_agree=1.0)
    assert (ended.n_warmup, ended.warmup_agreed) == (8, False)
    assert ended.warmup_failed_by == {"http_503": 8}
    assert [sample.reason for sample in samples] == ["http_503"]
