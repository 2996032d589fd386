"""What ``edgesweep-agent probe`` prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from edgesweep_agent import attach
from edgesweep_agent.cli.probe import probe_object, table
from edgesweep_agent.errors import EngineError, UsageError
from engine_fixtures import answers_of, plain
from engine_server import engine_process

pytestmark = pytest.mark.anyio
AGENT = Path(sys.executable).parent / "edgesweep-agent"


async def look(answers, model=None):
    asked = []

    def answer(request):
        asked.append(f"{request.method} {request.url.raw_path.decode()}")
        reply = answers.get(request.url.raw_path.decode())
        if reply is None:
            return httpx.Response(404, json={"detail": "Not Found"})
        return httpx.Response(reply.status, headers=dict(reply.headers), text=reply.text)

    seen = await attach.look("http://engine", model=model, transport=httpx.MockTransport(answer))
    assert all(each.startswith("GET ") for each in asked)
    return probe_object(seen)


async def test_a_probe_of_vllm_is_what_the_design_says():
    report = await look(answers_of("vllm"))
    assert {
        key: report[key]
        for key in ("engine", "version", "model", "slots", "context_per_request", "running",
                    "waiting", "kv_cache_usage")
    } == {
        "engine": "vllm", "version": "0.27.1", "model": "m", "slots": None,
        "context_per_request": 4096, "running": 8, "waiting": 2,
        "kv_cache_usage": {"max": 0.75, "mean": 0.5},
    }  # fmt: skip
    assert report["counters"]["generation_tokens"] == 960
    assert report["settings"]["enable_prefix_caching"] == "True"
    assert report["metrics_state"] == "ok"
    assert "/version 0.27.1" in report["evidence"]


async def test_met_06_what_is_not_told_is_null_and_the_reason_is_said():
    off = plain(**{"/slots": [{"is_processing": True}, {"is_processing": False}]})
    report = await look(answers_of("llamacpp_old") | off)
    assert (report["running"], report["waiting"]) == (1, None)
    assert report["kv_cache_usage"] == {"max": None, "mean": None}
    assert set(report["counters"].values()) == {None}
    assert (report["metrics_state"], report["metrics_reason"]) == ("absent", "HTTP 404")


@pytest.mark.parametrize("name", ["unknown_llama_swap", "unknown_litellm", "unknown_nginx"])
async def test_a_gateway_is_unknown(name):
    report = await look(answers_of(name))
    assert (report["engine"], report["slots"], report["running"]) == ("unknown", None, None)
    assert report["evidence"][0].startswith("a gateway: ")


async def test_eng_02_a_router_tells_how_to_ask_and_then_answers_for_the_model():
    report = await look(answers_of("llamacpp_router"))
    assert (report["context_per_request"], report["slots"]) == (None, None)
    assert "ask /props?model=NAME" in report["hint"]
    props = {"total_slots": 3, "build_info": "b2", "default_generation_settings": {"n_ctx": 1024}}
    slots = [{"n_ctx": 1024, "is_processing": True}] * 3
    named = plain(**{"/props?model=b": props, "/slots?model=b": slots})
    report = await look(answers_of("llamacpp_router") | named, "b")
    assert (report["model"], report["context_per_request"], report["slots"]) == ("b", 1024, 3)
    assert (report["running"], report["hint"]) == (3, None)


async def test_a_model_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(UsageError, match="no model 'c'; it has a, b"):
        await look(answers_of("llamacpp_router"), "c")


async def test_a_server_that_is_loading_is_no_probe():
    with pytest.raises(EngineError, match="still loading"):
        await look(answers_of("llamacpp_loading"))


async def test_a_report_is_a_table_for_people():
    lines = table(await look(answers_of("vllm")))
    assert lines[0].split() == ["engine", "vllm"]
    assert "slots                -" in lines
    assert "kv_cache_usage       max 0.75" in lines
    assert "                     mean 0.5" in lines
    assert not [line for line in lines if "None" in line or "preemptions -" in line]
    assert [line for line in lines if line.startswith("hint ") and "VLLM_SERVER_DEV_MODE" in line]


def test_the_command_prints_json_or_a_table():
    with engine_process() as engine:
        done, shown = (
            subprocess.run(
                [AGENT, "probe", engine.url, *options], capture_output=True, text=True, check=True
            )
            for options in (["--json"], [])
        )
        assert engine.get("/stats")["requests"] == 0
    report = json.loads(done.stdout)
    assert (report["engine"], report["model"]) == ("unknown", "scripted")
    assert report["evidence"] == ["/v1/models lists 1"]
    assert shown.stdout.splitlines()[0].split() == ["engine", "unknown"]
