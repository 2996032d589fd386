"""What an engine counts, and what happened between two scrapes."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise

import pytest

from edgesweep_agent.core.answers import Reply
from edgesweep_agent.core.counters import (
    COUNTED,
    Counters,
    MetricNames,
    MetricsState,
    Peaks,
    Usage,
    difference,
    peaks,
    scraped,
    silent,
)
from edgesweep_agent.engines.registry import ENGINES
from engine_fixtures import cases

CASES = cases("metrics_scrape")
NAMES = MetricNames(prefix="e:", running=("e:running",), counted={"decodes": ("e:decodes",)})


def counters(**counted):
    own = {key: counted.pop(key) for key in ("busy_slots_per_decode", "process_start")
           if key in counted}  # fmt: skip
    return Counters(MetricsState.OK, counted=counted, **own)


def llama(text):
    return ENGINES["llama.cpp"].counters({"/metrics": Reply(200, {}, text)})


def test_met_05_rates_are_ours_and_a_decrease_is_a_restart():
    samples, expected = CASES["MET-05"]["input"]["samples"], CASES["MET-05"]["expected"]
    rates, restarts = [], []
    for before, after in pairwise(samples):
        seconds = after["mono_s"] - before["mono_s"]
        delta = difference(llama(before["text"]), llama(after["text"]), seconds)
        rates.append(delta.per_second("generation_tokens"))
        restarts += [after["mono_s"]] if delta.restarted else []
    assert rates == expected["server_tps"]
    assert restarts == [expected["engine_restart_seen_at_s"]]
    assert not set(rates) & set(expected["must_not"]["server_tps"])


@pytest.mark.parametrize("name", COUNTED)
def test_met_05_any_counter_that_falls_is_a_restart(name):
    rest = dict.fromkeys(COUNTED, 5.0)
    delta = difference(counters(**rest), counters(**{**rest, name: 4.0}), 1)
    assert delta.restarted
    assert not delta.increases
    assert all(delta.per_second(each) is None for each in COUNTED)


@pytest.mark.parametrize(
    ("before", "after", "restarted"),
    [(7.0, 7.0, False), (7.0, 8.0, True), (None, 8.0, False), (7.0, None, False)],
)
def test_met_05_another_start_is_a_restart_though_the_counters_have_passed_the_old_ones(
    before, after, restarted
):
    a = counters(decodes=5.0, process_start=before)
    b = counters(decodes=9.0, process_start=after)
    assert difference(a, b, 1).restarted is restarted


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_makes_no_rate(seconds):
    delta = difference(counters(decodes=1.0), counters(decodes=2.0), seconds)
    assert delta.per_second("decodes") is None
    assert delta.increases == {"decodes": 1.0}


def test_what_one_scrape_did_not_tell_is_unknown_and_not_zero():
    delta = difference(counters(decodes=1.0), counters(preemptions=3.0), 1)
    assert (delta.increases, delta.per_second("preemptions")) == ({}, None)
    dead = silent(MetricsState.DISABLED, "off")
    assert difference(dead, counters(decodes=1.0), 1).increases == {}
    assert not difference(counters(decodes=1.0), dead, 1).restarted


@pytest.mark.parametrize(
    ("before", "after", "busy"),
    [
        # 100 passes with 1 slot each, then 50 with 4: the mean since the start is 2.
        ((100.0, 1.0), (150.0, 2.0), 4.0),
        ((0.0, None), (10.0, 3.0), 3.0),
        ((5.0, None), (10.0, 3.0), None),
        ((5.0, 2.0), (5.0, 2.0), None),
        ((5.0, 2.0), (10.0, None), None),
        # Six digits of the mean: a hair under nothing is nothing.
        ((1_000_000.0, 1.00001), (1_000_001.0, 1.0), 0.0),
    ],
)
def test_busy_slots_of_a_window_come_out_of_two_means(before, after, busy):
    a, b = (counters(decodes=n, busy_slots_per_decode=mean) for n, mean in (before, after))
    got = difference(a, b, 1).busy_slots_per_decode
    assert got == (busy if busy is None else pytest.approx(busy))


def test_ratios_are_those_of_the_window():
    a = counters(prefix_queries=100.0, prefix_hits=90.0, draft_tokens=10.0, accepted_tokens=10.0)
    b = counters(prefix_queries=200.0, prefix_hits=100.0, draft_tokens=10.0, accepted_tokens=10.0)
    delta = difference(a, b, 1)
    assert (delta.increases["prefix_hits"], delta.draft_acceptance) == (10, None)


def test_peaks_are_of_what_was_told():
    seen = [
        silent(MetricsState.UNREADABLE, ""),
        dataclasses.replace(counters(), running=4.0, kv_cache_usage=Usage(0.5, 0.25)),
        dataclasses.replace(counters(), running=2.0, waiting=4.0, kv_cache_usage=Usage(0.75, 0.7)),
    ]
    assert peaks(seen) == Peaks(running=4.0, waiting=4.0, kv_cache_usage=0.75)
    assert peaks(seen[:1]) == peaks([]) == Peaks(None, None, None)


OFF = '{"error":{"code":501,"message":"it needs `--metrics`","type":"not_supported_error"}}'


@pytest.mark.parametrize(
    ("status", "body", "state", "says"),
    [
        (200, "e:running 1\n", MetricsState.OK, ""),
        (501, OFF, MetricsState.DISABLED, "needs `--metrics`"),
        (501, "", MetricsState.DISABLED, "HTTP 501"),
        # A proxy may turn every status into 200: the body is judged.
        (200, OFF, MetricsState.DISABLED, "needs `--metrics`"),
        (404, '{"detail":"Not Found"}', MetricsState.ABSENT, "HTTP 404"),
        (405, "", MetricsState.ABSENT, "HTTP 405"),
        (200, '{"error":"Unexpected endpoint or method."}', MetricsState.ABSENT, "Unexpected"),
        (200, "other 1\n", MetricsState.ABSENT, r"no e:\* among"),
        (200, "OK", MetricsState.UNREADABLE, "no sample"),
        (200, "<html>", MetricsState.UNREADABLE, "HTML page"),
        (401, '{"error":{"message":"Invalid API Key"}}', MetricsState.UNREADABLE, "401: Invalid"),
        (500, "", MetricsState.UNREADABLE, "HTTP 500"),
        (503, "e:running 1\n", MetricsState.UNREADABLE, "HTTP 503"),
        (0, "", MetricsState.UNREADABLE, "no answer"),
    ],
)
def test_met_06_why_there_are_no_figures_is_said(status, body, state, says):
    told = scraped(Reply(status, {}, body), NAMES)
    assert told.metrics_state is state
    assert re.search(says, told.reason)
    assert told.waiting is None
    assert told.running == (1.0 if state is MetricsState.OK else None)


def test_met_06_no_answer_at_all_is_unreadable():
    assert scraped(None, NAMES).metrics_state is MetricsState.UNREADABLE


def test_a_scrape_keeps_what_was_odd_about_it():
    told = scraped(Reply(200, {}, '"e:running 1\\ne:decodes NaN\\n"'), NAMES)
    assert (told.warnings, told.bad_samples) == (("metrics_body_quoted",), 1)
    assert (told.running, dict(told.counted)) == (1.0, {})
