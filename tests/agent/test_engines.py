"""Which engine is behind a set of answers; the inputs are those of public reports."""

from __future__ import annotations

import json

import pytest

from edgesweep_agent.core.answers import Reply
from edgesweep_agent.engines.registry import ENGINES, recognise


def answers(**bodies):
    return {
        path: Reply(200, {"content-type": "application/json"}, json.dumps(body))
        for path, body in bodies.items()
    }


def models(owner, name="m", **more):
    return {"data": [{"id": name, "owned_by": owner, **more}]}


LLAMA = {"total_slots": 2, "build_info": "b6500-abc"}


@pytest.mark.parametrize(
    ("server", "engine", "version"),
    [
        ({"/props": LLAMA, "/v1/models": models("llamacpp")}, "llama.cpp", "b6500-abc"),
        ({"/v1/models": models("llamacpp")}, "llama.cpp", ""),
        # A clone of somebody else's server, a name that sounds like an engine: not known.
        ({"/v1/models": models("someone", "vllm-clone")}, "unknown", ""),
        ({"/v1/models": models("library", "gpt-oss:20b")}, "unknown", ""),
        # LM Studio answers 200 with an error to paths that it does not know.
        ({"/props": {"error": "Unexpected endpoint"}, "/v1/models": models("x")}, "unknown", ""),
        ({}, "unknown", ""),
    ],
)  # fmt: skip
def test_an_engine_is_judged_by_bodies(server, engine, version):
    _, facts = recognise(answers(**server))
    assert (facts.engine, facts.version) == (engine, version)


@pytest.mark.parametrize(
    ("props", "slots", "context"),
    [
        ({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 4}, 4, 2048),
        ({"model_path": "/m/a.gguf"}, None, None),
        ({"default_generation_settings": {"n_ctx": 0}, "model_path": "none"}, None, None),
        ({"default_generation_settings": None, "total_slots": "4"}, None, None),
    ],
)
def test_the_context_of_props_is_that_of_one_slot(props, slots, context):
    _, facts = recognise(answers(**{"/props": {"build_info": "b1", "model_path": "x", **props}}))
    assert (facts.slots, facts.context_per_request) == (slots, context)


def test_slots_tell_the_context_and_who_is_busy():
    _, facts = recognise(
        answers(
            **{
                "/props": {**LLAMA, "default_generation_settings": {"n_ctx": 9}},
                "/slots": [
                    {"id": 0, "n_ctx": 512, "is_processing": True},
                    {"id": 1, "n_ctx": 512, "is_processing": False},
                ],
            }
        )
    )
    assert (facts.context_per_request, facts.running) == (512, 1)


@pytest.mark.parametrize("body", ["null", "[]", '"x"', "{", "", "[1, null]", '{"data": 3}'])
@pytest.mark.parametrize("path", ["/props", "/slots", "/v1/models", "/health"])
def test_no_body_is_too_strange(path, body):
    _, facts = recognise({path: Reply(200, {}, body)})
    assert facts.engine in ENGINES


def test_the_names_of_the_registry_are_those_of_the_records():
    assert all(engine.name == name for name, engine in ENGINES.items())
