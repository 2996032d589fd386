from __future__ import annotations

import pytest

from edgesweep.records import Sample
from edgesweep_agent.core.slo import Slo

GOOD = {"ok": True, "ttft_s": 0.5, "tpot_s": 0.05, "e2e_s": 2.0, "output_tokens": 30}


@pytest.mark.parametrize(
    ("bounds", "changes", "met"),
    [
        ({}, {}, True),
        ({}, {"ok": False}, False),
        ({"ttft_s": 0.5}, {}, True),
        ({"ttft_s": 0.49}, {}, False),
        ({"ttft_s": 1.0}, {"ok": False}, False),
        ({"ttft_s": 1.0}, {"ttft_s": None}, False),
        ({"tpot_s": 0.05}, {}, True),
        ({"tpot_s": 0.04}, {}, False),
        ({"tpot_s": 0.04}, {"tpot_s": None, "output_tokens": 1}, True),
        ({"tpot_s": 0.04}, {"tpot_s": None}, False),
        ({"tpot_s": 0.04}, {"tpot_s": None, "output_tokens": None}, False),
        ({"e2e_s": 2.0}, {}, True),
        ({"e2e_s": 1.9}, {}, False),
        ({"ttft_s": 0.5, "tpot_s": 0.05, "e2e_s": 2.0}, {}, True),
        ({"ttft_s": 0.5, "tpot_s": 0.05, "e2e_s": 2.0}, {"e2e_s": 2.1}, False),
    ],
)
def test_a_request_meets_every_bound_or_none(bounds, changes, met):
    sample = Sample(concurrency=1, index=0, **{**GOOD, **changes})
    assert Slo(**bounds).met_by(sample) is met


def test_without_bounds_nothing_is_asked():
    assert not Slo().asks
    assert Slo(e2e_s=1.0).asks
