"""What each engine's answers come to under our names."""

from __future__ import annotations

import pytest

from edgesweep_agent.core.answers import Reply
from edgesweep_agent.core.counters import MetricsState, Peaks, Usage, peaks
from edgesweep_agent.engines.registry import ENGINES, recognise
from engine_fixtures import NAMES, answers_of, cases, reply

CASES = cases("metrics_scrape")


def counters_of(name):
    answers = answers_of(name)
    engine, _ = recognise(answers)
    return engine.counters(answers)


def vllm(text):
    return ENGINES["vllm"].counters({"/metrics": Reply(200, {}, text)})


def llama(metrics, slots=None):
    answers = {"/metrics": reply(metrics)}
    return ENGINES["llama.cpp"].counters(answers | ({"/slots": reply(slots)} if slots else {}))


@pytest.mark.parametrize("variant", sorted(CASES["MET-01"]["input"]["variants"]))
def test_met_01_a_renamed_metric_is_found_and_a_missing_one_is_unknown(variant):
    told = vllm(CASES["MET-01"]["input"]["variants"][variant])
    value = CASES["MET-01"]["expected"]["kv_cache_usage"][variant]
    assert told.kv_cache_usage == (None if value is None else Usage(value, value))
    assert told.metrics_state is MetricsState.OK


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        ('vllm:kv_cache_usage_perc{engine="0"} 0.75\nvllm:kv_cache_usage_perc{engine="1"} 0.25\n',
         Usage(0.75, 0.5)),
        ('vllm:kv_cache_usage_perc{engine="0"} 0\n', Usage(0.0, 0.0)),
        ('vllm:kv_cache_usage_perc{engine="0"} 0.75\nvllm:kv_cache_usage_perc{engine="1"} NaN\n',
         None),
    ],
)  # fmt: skip
def test_met_01_the_use_of_several_caches_is_their_highest_and_their_mean(text, usage):
    assert vllm(text).kv_cache_usage == usage


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("vllm:gpu_prefix_cache_queries_total 8", "vllm:prefix_cache_queries_total 8"),
        ("vllm:gpu_prefix_cache_hits_total 8", "vllm:prefix_cache_hits_total 8"),
    ],
)
def test_met_01_every_renamed_metric_is_found_under_both_names(old, new):
    assert vllm(old).counted == vllm(new).counted != {}


def test_vllms_engines_are_summed():
    told = counters_of("vllm")
    assert (told.running, told.waiting, told.kv_cache_usage) == (8.0, 2.0, Usage(0.75, 0.5))
    assert dict(told.counted) == {
        "prompt_tokens": 1500.0, "cached_prompt_tokens": 300.0, "computed_prompt_tokens": 1200.0,
        "generation_tokens": 960.0, "preemptions": 1.0, "prefix_queries": 1500.0,
        "prefix_hits": 300.0,
    }  # fmt: skip
    assert (told.kv_capacity_tokens, told.process_start) == (65520.0, 1.76e9)
    assert counters_of("vllm_old").kv_capacity_tokens is None


def test_vllm_without_statistics_says_so():
    told = counters_of("vllm_no_stats")
    assert told.metrics_state is MetricsState.DISABLED
    assert "--disable-log-stats" in told.reason
    assert (told.running, told.waiting, dict(told.counted)) == (None, None, {})


def test_llama_cpps_prompt_tokens_are_those_computed_and_those_reused():
    text = "llamacpp:prompt_tokens_total 143\nllamacpp:prompt_tokens_cached_total 57\n"
    told = ENGINES["llama.cpp"].counters(
        {"/metrics": Reply(200, {"process-start-time-unix": "10996749584"}, text)}
    )
    assert dict(told.counted) == {
        "computed_prompt_tokens": 143.0, "cached_prompt_tokens": 57.0, "prompt_tokens": 200.0,
    }  # fmt: skip
    assert told.process_start == 10996749584.0
    # Older builds do not count what they reused: the sum is not known.
    older = llama({"status": 200, "headers": {}, "body": text.partition("\n")[0]})
    assert dict(older.counted) == {"computed_prompt_tokens": 143.0}
    assert older.process_start is None


def test_the_real_llama_cpp_is_read_whole():
    told = counters_of("llamacpp")
    assert told.metrics_state is MetricsState.OK
    assert (told.running, told.waiting, told.slots) == (0.0, 0.0, 4)
    assert told.counted["generation_tokens"] == 313.0
    assert (told.counted["decodes"], told.busy_slots_per_decode) == (122.0, 2.56557)
    assert told.bad_samples == 0


def test_met_06_without_metrics_the_slots_tell_who_is_busy_and_not_who_waits():
    case = CASES["MET-06"]
    given, expected = case["input"], case["expected"]
    told = llama({"headers": {}, **given["GET /metrics"]}, {"headers": {}, **given["GET /slots"]})
    assert (told.running, told.slots) == (expected["slots_busy"], expected["slots_total"])
    assert told.metrics_state.value == expected["metrics_state"]
    assert told.waiting == expected["requests_deferred"]
    assert told.kv_cache_usage == expected["kv_cache_usage"]


@pytest.mark.parametrize(
    ("metrics", "slots", "running", "total"),
    [
        ((501, ""), (501, '{"error":{}}'), None, None),
        ((501, ""), (200, "[]"), None, None),
        ((404, ""), (200, '[{"is_processing":true},{"is_processing":true}]'), 2.0, 2),
        ((0, ""), (200, '[{"is_processing":1},{"id":1}]'), 0.0, 2),
        ((200, "OK"), (200, '[{"is_processing":true}, null, 3]'), 1.0, 1),
        ((200, "llamacpp:requests_processing 3"), (200, '[{"is_processing":true}]'), 3.0, 1),
        # Withdrawn by a later version: the slots still tell.
        ((200, "llamacpp:n_decode_total 3"), (200, '[{"is_processing":true}]'), 1.0, 1),
    ],
)
def test_met_06_whatever_is_switched_off_the_rest_is_told(metrics, slots, running, total):
    told = ENGINES["llama.cpp"].counters(
        {"/metrics": Reply(metrics[0], {}, metrics[1]), "/slots": Reply(slots[0], {}, slots[1])}
    )
    assert (told.running, told.slots, told.waiting) == (running, total, None)


def test_met_06_withdrawn_names_read_as_unknown():
    told = counters_of("llamacpp")
    assert (told.kv_cache_usage, told.kv_used_tokens) == (None, None)
    assert "preemptions" not in told.counted


def test_eng_03_what_a_full_server_holds_back_is_seen():
    case = cases("engine_detect")["ENG-03"]
    busiest = "".join(f"{name} {n}\n" for name, n in case["input"]["metrics_peak"].items())
    idle = busiest.replace(" 4\n", " 0\n")
    seen = [llama({"status": 200, "headers": {}, "body": text}) for text in (idle, busiest, idle)]
    expected = case["expected"]
    assert peaks(seen) == Peaks(
        running=expected["effective_concurrency"], waiting=expected["requests_deferred_peak"]
    )
    assert peaks(seen).running != expected["must_not"]["effective_concurrency"]
    props = {"total_slots": case["input"]["total_slots"], "build_info": "b1"}
    told = {"/props": reply({"status": 200, "headers": {}, "body": props})}
    assert recognise(told)[1].slots == case["input"]["total_slots"]


def test_sglang_is_read():
    told = counters_of("sglang")
    assert (told.running, told.waiting, told.kv_cache_usage) == (6.0, 1.0, Usage(0.28, 0.28))
    assert (told.kv_capacity_tokens, told.kv_used_tokens) == (65536.0, 18350.0)
    assert told.counted["computed_prompt_tokens"] == 4000.0
    assert told.counted["preemptions"] == 2.0


def test_tgi_is_read():
    told = counters_of("tgi")
    assert (told.running, told.waiting) == (4.0, 7.0)
    assert told.counted["generation_tokens"] == 8123.0


@pytest.mark.parametrize(
    ("perf", "state", "running", "waiting"),
    [
        ('{"idle":0,"queue":3}', MetricsState.OK, 1.0, 3.0),
        ('{"idle":1,"queue":0}', MetricsState.OK, 0.0, 0.0),
        ('{"idle":1}', MetricsState.OK, 0.0, None),
        ("{}", MetricsState.UNREADABLE, None, None),
    ],
)
def test_koboldcpp_is_read(perf, state, running, waiting):
    told = ENGINES["koboldcpp"].counters({"/api/extra/perf": Reply(200, {}, perf)})
    assert (told.metrics_state, told.running, told.waiting) == (state, running, waiting)


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_known_or_there_is_a_reason(name):
    told = counters_of(name)
    assert bool(told.reason) == (told.metrics_state is not MetricsState.OK)
