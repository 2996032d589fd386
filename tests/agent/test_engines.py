"""Which engine is behind a set of answers; the inputs are those of public reports."""

from __future__ import annotations

import dataclasses
import json

import pytest

from edgesweep_agent.core.answers import Reply
from edgesweep_agent.engines.registry import ENGINES, PATHS, recognise
from engine_fixtures import NAMES, answers_of, cases, load, plain, replies

CASES = cases("engine_detect")
WORDS = {"generic": "unknown"}
"""What the cases call otherwise."""


def models(owner, name="m", **more):
    return {"data": [{"id": name, "owned_by": owner, **more}]}


LLAMA = {"total_slots": 2, "build_info": "b6500-abc"}


@pytest.mark.parametrize("name", NAMES)
def test_each_server_is_recognised_with_its_facts(name):
    fixture = load(name)
    engine, facts = recognise(answers_of(name), fixture.get("model"))
    assert (engine.name, facts.engine) == (fixture["engine"], fixture["engine"])
    told = json.loads(json.dumps(dataclasses.asdict(facts)))
    settings = fixture["expected"].pop("settings", None)
    assert {key: told[key] for key in fixture["expected"]} == fixture["expected"]
    assert settings is None or {key: facts.settings.get(key) for key in settings} == settings


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("unknown")])
def test_an_engine_is_known_by_what_it_answers_and_says_by_what(name):
    _, facts = recognise(answers_of(name))
    assert facts.evidence
    assert not [text for text in facts.evidence if text.startswith(("but", "a gateway"))]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("unknown")])
def test_names_of_models_decide_nothing(name):
    fixture = load(name)
    text = json.dumps(fixture["answers"])
    for model in [fixture.get("model") or "", "gpt-oss:20b", "google/gemma-3-4b"]:
        text = text.replace(f'"{model}"', '"vllm-ollama-gpt-4o"') if model else text
    engine, _ = recognise(replies(json.loads(text)))
    assert engine.name == fixture["engine"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("unknown_llama_swap", "a gateway: /v1/models owned_by llama-swap"),
        ("unknown_litellm", "a gateway: header x-litellm-version"),
        ("unknown_nginx", "a gateway: header Server: nginx/1.24.0"),
        ("unknown_nginx", "/props build_info b6500-abc"),
        ("unknown_relabelled", "but owned_by my-gateway"),
        ("unknown_two_engines", "but these are signs of llama.cpp, vllm"),
        ("unknown_vllm_listing_alone", "but neither /version nor vllm:* metrics"),
        ("unknown_yes_to_all", "a gateway: /.well-known/edgesweep-not-there is answered"),
        ("unknown_version_alone", "/v1/models lists 1"),
    ],
)
def test_what_is_not_certain_is_unknown_with_the_evidence(name, text):
    assert text in recognise(answers_of(name))[1].evidence


@pytest.mark.parametrize("second", ["tgi", "lmstudio"])
@pytest.mark.parametrize("first", [name for name in NAMES if not name.startswith("unknown")])
def test_two_engines_at_one_address_are_neither_of_them(first, second):
    both = {
        path: reply
        for name in (second, first)
        for path, reply in answers_of(name).items()
        if reply.status == 200 and "error" not in reply.json_object()
    }
    if first.startswith(second):
        assert recognise(both)[0].name == second
        return
    _, facts = recognise(both)
    assert (facts.engine, facts.slots, facts.version) == ("unknown", None, "")
    assert "but these are signs of" in facts.evidence[-1]


def server(told):
    return replies(
        {
            path: {"status": answer, "headers": {}, "body": ""}
            if isinstance(answer, int)
            else {"status": 200, "headers": {}, "body": answer.get("body", answer)}
            for path, answer in told.items()
        }
    )


@pytest.mark.parametrize("name", sorted(CASES["ENG-04"]["input"]["servers"]))
def test_eng_04_an_engine_is_never_guessed_from_a_name_a_port_or_one_field(name):
    _, facts = recognise(server(CASES["ENG-04"]["input"]["servers"][name]))
    expected = CASES["ENG-04"]["expected"][name]
    assert facts.engine == WORDS.get(expected["engine"], expected["engine"])
    assert (facts.version or None) == expected["version"]
    assert facts.engine != CASES["ENG-04"]["expected"]["must_not"].get(name)


@pytest.mark.parametrize("path", ["/props", "/v1/models", "/version", "/api/version"])
def test_eng_04_one_answer_alone_never_makes_an_engine_of_a_clone(path):
    told = {"/props": {"total_slots": 2}, "/v1/models": models("someone", "vllm-clone")}
    alone = told.get(path, {"version": "0.11.0"})
    assert recognise(plain(**{path: alone}))[0].name == "unknown"


def test_eng_04_the_user_knows_best():
    engine, facts = recognise(plain(**{"/v1/models": models("someone")}), named="vllm")
    assert (engine.name, facts.engine, facts.evidence) == ("vllm", "vllm", ("named by the user",))


@pytest.mark.parametrize("variant", sorted(CASES["ENG-02"]["input"]["variants"]))
def test_eng_02_the_context_of_props_is_that_of_one_slot(variant):
    given, expected = CASES["ENG-02"]["input"], CASES["ENG-02"]["expected"][variant]
    engine, _ = recognise(plain(**{"/props": given["variants"][variant]}))
    facts = ENGINES["llama.cpp"].facts(plain(**{"/props": given["variants"][variant]}), None)
    if "hint" in expected:
        facts = engine.facts(plain(**{"/props": given["variants"][variant]}), None)
        assert expected["hint"] in facts.hint
    assert facts.context_per_request == expected["ctx_per_slot"]
    assert facts.slots == expected.get("slots", facts.slots)
    reason = facts.misfit(given["workload"]["prompt_tokens"], given["workload"]["max_tokens"])
    assert reason == expected.get("reason", "")


@pytest.mark.parametrize(
    ("props", "slots", "context"),
    [
        ({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 4}, 4, 2048),
        ({"default_generation_settings": {"n_ctx": 2048}}, None, 2048),
        ({"model_path": "/m/a.gguf"}, None, None),
        ({"default_generation_settings": {"n_ctx": 0}}, None, None),
        ({"default_generation_settings": {"n_ctx": True}, "total_slots": True}, None, None),
        ({"default_generation_settings": {"n_ctx": 2048.0}, "total_slots": -1}, None, 2048),
        ({"default_generation_settings": {"n_ctx": 2048.5}, "total_slots": 10**12}, None, None),
        ({"default_generation_settings": None, "total_slots": "4"}, None, None),
    ],
)
def test_eng_02_no_context_is_multiplied_divided_or_made_up(props, slots, context):
    _, facts = recognise(plain(**{"/props": {"build_info": "b1", "model_path": "x", **props}}))
    assert (facts.slots, facts.context_per_request) == (slots, context)


def test_eng_02_slots_tell_the_context_before_props_do():
    told = {"/props": {**LLAMA, "default_generation_settings": {"n_ctx": 9}}}
    told["/slots"] = [{"id": n, "n_ctx": 512, "is_processing": n == 0} for n in range(2)]
    assert recognise(plain(**told))[1].context_per_request == 512


@pytest.mark.parametrize(
    ("context", "prompt", "output", "reason"),
    [
        (2048, 1792, 256, ""),
        (2048, 1793, 256, "1793+256=2049 > 2048"),
        (None, 10**9, 1, ""),
    ],
)
def test_eng_02_a_request_fits_up_to_the_last_token(context, prompt, output, reason):
    _, facts = recognise(plain(**{"/props": {**LLAMA}}))
    assert dataclasses.replace(facts, context_per_request=context).misfit(prompt, output) == reason


def test_eng_02_a_router_is_asked_for_one_model():
    engine, facts = recognise(answers_of("llamacpp_router"))
    assert facts.needs_model
    bound = engine.bound("org/a b.gguf")
    asked = "/props?model=org%2Fa%20b.gguf"
    assert asked in bound.paths
    assert bound.scrape_paths[0] == "/metrics?model=org%2Fa%20b.gguf"
    props = {"total_slots": 3, "build_info": "b2", "default_generation_settings": {"n_ctx": 1024}}
    facts = bound.facts(answers_of("llamacpp_router") | plain(**{asked: props}), "org/a b.gguf")
    assert (facts.slots, facts.context_per_request, facts.needs_model) == (3, 1024, False)
    assert facts.hint == ""


@pytest.mark.parametrize(
    ("name", "model", "context", "weights"),
    [
        ("ollama", "qwen2.5:0.5b", 2048, "Q4_K_M"),
        ("ollama", "gpt-oss:20b", None, "MXFP4"),
        ("ollama", "not-there", None, ""),
        ("lmstudio", "google/gemma-3-4b", 4096, "Q4_K_M"),
        ("lmstudio", "qwen3-4b", None, "4bit"),
        ("lmstudio", "not-there", None, ""),
    ],
)
def test_the_facts_are_those_of_the_model_that_is_asked_for(name, model, context, weights):
    _, facts = recognise(answers_of(name), model)
    assert (facts.context_per_request, facts.weight_format) == (context, weights)


def test_no_secret_of_the_engine_becomes_a_fact():
    assert "not-for-records" in json.dumps(load("sglang"))
    assert "not-for-records" not in repr(recognise(answers_of("sglang")))


BODIES = ["null", "[]", '"x"', "{", "", "[1, null]", '{"data": 3}', '{"data": [{"id": 7}]}',
          "[" * 20_000, '{"version": 1, "models": [1], "info": [], "running": [null]}',
          '{"default_generation_settings": {"params": 1}, "chat_template": 1}']  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_no_body_is_too_strange(body):
    for path in PATHS:
        _, facts = recognise({path: Reply(200, {}, body)})
        assert facts.engine in ENGINES
    everywhere = {path: Reply(200, {}, body) for path in PATHS}
    for engine in ENGINES.values():
        engine.facts(everywhere, "m")
        engine.counters(everywhere)


@pytest.mark.parametrize("name", ["ollama", "lmstudio", "jan", "llamafile", "localai", "unknown"])
def test_servers_that_may_be_strict_get_no_field_beyond_openais(name):
    engine = ENGINES[name]
    assert {**engine.body_fields(), **engine.request_fields("n"), **engine.natural_fields()} == {}
    assert engine.counting() is None


def test_fair_requests_are_greedy_of_fixed_length_and_share_nothing():
    llama, vllm = ENGINES["llama.cpp"], ENGINES["vllm"]
    assert llama.body_fields() == {
        "ignore_eos": True, "cache_prompt": False, "samplers": ["top_k"], "top_k": 1,
    }  # fmt: skip
    assert vllm.body_fields() == {"ignore_eos": True, "repetition_penalty": 1.0}
    assert vllm.request_fields("a") != vllm.request_fields("b")
    assert all(engine.natural_fields() == {} for engine in ENGINES.values())


def test_the_names_of_the_registry_are_those_of_the_records():
    others = {key for key, engine in ENGINES.items() if engine.name != key}
    assert others == {"llama.cpp router"}


def test_what_has_to_be_asked_is_asked():
    assert all(set(engine.paths) <= set(PATHS) for engine in ENGINES.values())
    assert all(path.startswith("/") for path in PATHS)
