"""More of the kinds of ``fixtures/cases/metrics_scrape.json``, whose cases are in other files.

| case | tests |
|---|---|
| MET-01 | ``test_engines_counters.py``, ``test_exposition.py``: ``test_met_01_*`` |
| MET-02, 03 | ``test_exposition.py``: ``test_met_02_*``, ``test_met_03_*`` |
| MET-05 | ``test_counters.py``: ``test_met_05_*`` |
| MET-06 | ``test_counters.py``, ``test_engines_counters.py``, ``test_attach.py``: as above |
"""

from __future__ import annotations

import pytest

from edgesweep_agent.core.answers import Reply
from edgesweep_agent.core.counters import MetricsState, Usage, difference
from edgesweep_agent.engines.registry import ENGINES


def vllm(text, status=200, **headers):
    return ENGINES["vllm"].counters({"/metrics": Reply(status, headers, text)})


def two(name, first, second):
    return vllm(f'vllm:{name}{{engine="0"}} {first}\nvllm:{name}{{engine="1"}} {second}\n')


@pytest.mark.parametrize(
    ("after", "restarted"),
    [((150, 250), False), ((5, 900), True), ((900, 5), True), ((100, 200), False)],
)
def test_met_05_one_of_several_engines_that_begins_anew_is_a_restart(after, restarted):
    told = difference(
        two("generation_tokens_total", 100, 200), two("generation_tokens_total", *after), 10.0
    )
    assert told.restarted == restarted
    assert (told.per_second("generation_tokens") is None) == restarted


def test_met_05_an_engine_that_joins_later_is_no_restart():
    before = vllm('vllm:generation_tokens_total{engine="0"} 100\n')
    assert difference(before, two("generation_tokens_total", 150, 20), 10.0).increases == {
        "generation_tokens": 70.0
    }


@pytest.mark.parametrize("page", ["<!DOCTYPE html>\n<p>\nlogin 1\n", "\n<html>\nCopyright 2026\n"])
@pytest.mark.parametrize("name", ["vllm", "llama.cpp", "sglang", "tgi"])
def test_met_03_a_login_page_is_no_exposition_though_a_line_of_it_looks_like_one(page, name):
    told = ENGINES[name].counters({"/metrics": Reply(200, {"content-type": "text/plain"}, page)})
    assert (told.metrics_state, told.running) == (MetricsState.UNREADABLE, None)
    assert "HTML page" in told.reason


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        ("0.5", Usage(0.5, 0.5)),
        ("1.0000000001", Usage(1.0000000001, 1.0000000001)),
        ("25", None),
        ("-1", None),
        ("NaN", None),
    ],
)
def test_met_01_a_share_that_is_none_is_unknown(text, usage):
    assert vllm(f"vllm:kv_cache_usage_perc {text}\n").kv_cache_usage == usage


def test_met_06_less_than_no_request_is_unknown():
    assert vllm("vllm:num_requests_running -1\nvllm:num_requests_waiting 0\n").running is None


@pytest.mark.parametrize("start", ["nan", "inf", "-inf", "soon"])
def test_met_05_a_start_that_is_no_instant_is_not_told(start):
    reply = Reply(200, {"process-start-time-unix": start}, "llamacpp:n_decode_total 5\n")
    told = ENGINES["llama.cpp"].counters({"/metrics": reply})
    assert told.process_start is None
    assert not difference(told, told, 1.0).restarted


OPEN_METRICS = """\
# TYPE vllm:generation_tokens counter
# UNIT vllm:generation_tokens tokens
vllm:generation_tokens_total{name="a}\\"b,c=\\n\u2028\u00e9",engine="0"} 7 1.7e9 # {id="x y"} 1 2e9
vllm:generation_tokens_created{engine="0"} 1.7e+09
vllm:num_requests_running{engine="0"}3
# EOF
"""


def test_met_02_open_metrics_with_hostile_labels_is_read_whole():
    told = vllm(OPEN_METRICS)
    assert (told.counted["generation_tokens"], told.running, told.bad_samples) == (7.0, 3.0, 0)
