"""More of the kinds of ``fixtures/cases/engine_detect.json``, whose cases are in other files.

| case | tests |
|---|---|
| ENG-01 | ``test_attach.py``: ``test_eng_01_*`` |
| ENG-02, 04 | ``test_engines.py``: ``test_eng_02_*``, ``test_eng_04_*`` |
| ENG-03 | ``test_engines_counters.py``: ``test_eng_03_*``; its flag in ``test_validity.py`` |
"""

from __future__ import annotations

import pytest

from edgesweep_agent.core.answers import Reply, models_of, version_of
from edgesweep_agent.core.counters import MetricsState
from edgesweep_agent.engines.registry import ENGINES, recognise
from engine_fixtures import NAMES, answers_of, plain, reply


def listing(**entry):
    return plain(**{"/v1/models": {"data": [entry]}})


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ({"id": None}, ()),
        ({"id": 5, "aliases": [None, "a"]}, ("a",)),
        ({"id": "m", "aliases": 7}, ("m",)),
        ({"id": "m", "aliases": "xyz"}, ("m",)),
        ({"id": "é\u2028", "aliases": ["m", "m"]}, ("é\u2028", "m")),
        ({"id": "a\ud83d"}, ("a?",)),
        ({}, ()),
    ],
)
def test_eng_04_a_name_that_is_no_text_is_no_model(entry, names):
    answers = listing(**entry)
    assert models_of(answers) == names
    assert ENGINES["llama.cpp"].facts(answers, "x").models == names


@pytest.mark.parametrize("build", [None, "", 6500, [], {"b": 1}])
def test_eng_04_a_build_that_is_not_told_is_no_sign(build):
    engine, facts = recognise(plain(**{"/props": {"build_info": build, "total_slots": 4}}))
    assert (engine.name, facts.version) == ("unknown", "")


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("0.11.0", "0.11.0"),
        (" 0.11.0\n", "0.11.0"),
        ("0.11.0+cu128\t\n(git abc)", "0.11.0+cu128 (git abc)"),
        ("v" * 10**6, "v" * 80),
        (None, ""),
        (11, ""),
        ("", ""),
    ],
)
def test_eng_04_a_version_is_one_short_line(told, version):
    assert version_of(told) == version
    card = {"id": "m", "owned_by": "vllm", "max_model_len": 4096}
    engine, facts = recognise(
        plain(**{"/v1/models": {"data": [card]}, "/version": {"version": told}})
    )
    assert (engine.name, facts.version) == ("vllm" if version else "unknown", version)


@pytest.mark.parametrize("count", [10**12, 10**30, -1, float("nan"), float("inf"), "4", True])
def test_eng_02_a_count_that_no_record_holds_is_unknown(count):
    settings = {"default_generation_settings": {"n_ctx": count}, "total_slots": count}
    _, facts = recognise(plain(**{"/props": {"build_info": "b1", "model_path": "x", **settings}}))
    assert (facts.slots, facts.context_per_request) == (None, None)


def test_eng_02_endless_digits_in_a_printed_configuration_are_no_count():
    digits = "9" * 6000
    info = {"vllm_config": f"SchedulerConfig(max_num_seqs={digits})"}
    metrics = f'vllm:cache_config_info{{kv_cache_size_tokens="{digits}"}} 1\n'
    answers = plain(**{"/server_info?config_format=json": info, "/metrics": metrics})
    assert ENGINES["vllm"].facts(answers, None).slots is None
    assert ENGINES["vllm"].counters(answers).kv_capacity_tokens is None


@pytest.mark.parametrize("body", [[], [{"total_slots": 4}], "x", 7, None, True])
@pytest.mark.parametrize("path", ["/props", "/slots", "/version", "/server_info", "/v1/models"])
def test_eng_04_an_answer_of_another_shape_breaks_nothing(path, body):
    for name in NAMES:
        answers = {**answers_of(name), path: reply({"status": 200, "headers": {}, "body": body})}
        engine, facts = recognise(answers, "m")
        assert engine.name in {*ENGINES, "unknown"}
        assert facts.slots is None or facts.slots > 0
        assert engine.counters(answers).metrics_state in MetricsState


def test_eng_04_a_server_with_every_sign_is_none_of_them():
    together = {}
    for name in NAMES:
        together = answers_of(name) | together
    engine, facts = recognise(together)
    assert engine.name == "unknown"
    assert facts.evidence


@pytest.mark.parametrize(
    "headers",
    [
        {"server": "Kong/3.4"},
        {"server": "Microsoft-IIS/10.0"},
        {"x-envoy-upstream-service-time": "4"},
        {"via": "1.1 Squid"},
    ],
)
def test_eng_04_behind_a_proxy_no_engine_is_named(headers):
    answers = answers_of("vllm")
    first = answers["/v1/models"]
    answers["/v1/models"] = Reply(first.status, {**first.headers, **headers}, first.text)
    assert recognise(answers)[0].name == "unknown"


def test_eng_04_the_server_header_is_read_in_any_spelling():
    answers = {"/v1/models": Reply(200, {"server": "LlamaFile/0.9.3 "}, "{}")}
    engine, facts = recognise(answers)
    assert (engine.name, facts.version) == ("llamafile", "0.9.3")
