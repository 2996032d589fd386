"""The frozen formats: what is written is what the schemas say, and what was written stays valid."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

import wire
from edgesweep.metrics import REGISTRY, Shape
from edgesweep.records import (
    Contender,
    Distribution,
    Flag,
    LevelStatus,
    MemoryVerdict,
    RunState,
    Sample,
    Workload,
)
from edgesweep.run_json import run_object
from edgesweep_agent.core import metered
from edgesweep_agent.core.energy import Series
from edgesweep_agent.core.meter_csv import Trace
from edgesweep_agent.core.sample_json import sample_object
from schema import complaints

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ROOT / "tests/fixtures/json"
SCHEMAS = {
    name: json.loads((files("edgesweep") / f"schemas/{name}.1.schema.json").read_text())
    for name in ("run", "sample")
}
PAGE = (ROOT / "docs/run-json.md").read_text()

VERDICT = MemoryVerdict(
    admit=True, needed_bytes=300, available_bytes=900, reserve_bytes=100,
    limited_by="MemAvailable",
    terms=(("weights", 90), ("KV 4 x 512 x 23,040 B", 200), ("load generator", 10)),
)  # fmt: skip
FULL = Contender(
    "Q4_1", "llama.cpp", "b6000", "gcc-12 avx2", "m.gguf", "ab" * 32, "Q4_1", 4, 512,
    managed=True, launcher="process", settings={"threads": "2"},
)  # fmt: skip
DISTRIBUTION = Distribution(700, 0.3, 0.1, 0.5, 0.29, 0.4, 0.45, 0.49)
MEASURED = wire.level(
    4,
    contender=FULL,
    workload=Workload("fanout-2048+256-128", 256, 128),
    status=LevelStatus.FLAGGED,
    reason="slot_limit",
    flags=(Flag("queued", 8, 4, "requests at once"), Flag("engine_restarted", detail="counter")),
    attempt=2,
    n_failed=1,
    failed_by={"truncated": 1},
    values={m.name: 7.0 for m in REGISTRY.values() if m.shape is Shape.SCALAR},
    distributions={m.name: DISTRIBUTION for m in REGISTRY.values() if m.shape is not Shape.SCALAR},
    attributes={"thermal": "fresh", "energy_boundary": "input"},
    verdict=VERDICT,
    started_mono_ns=1,
    window_mono_ns=(10, 2_000_000_010),
)
NOTHING = {
    "flags": (),
    "n_ok": 0,
    "values": {},
    "distributions": {},
    "block_output_tokens_per_s": (),
}
SKIPPED = wire.level(
    8, status=LevelStatus.SKIPPED, reason="memory", verdict=replace(VERDICT, admit=False), **NOTHING
)
FAILED = wire.level(
    2, status=LevelStatus.FAILED, reason="oom", contender=wire.VLLM, n_failed=3,
    failed_by={"connection_reset": 3}, **{**NOTHING, "flags": (Flag("oom", 1, 0),)},
)  # fmt: skip
RUN = wire.run(
    state=RunState.COMPLETE, ended_wall_ns=9, reason="it said so", contenders=(FULL, wire.LLAMA)
)

GOOD = Sample(
    4, 0, ok=True, ttft_s=0.1, ttfr_s=0.05, first_content_s=0.1, tpot_s=0.01, e2e_s=0.5,
    queue_s=0.0, prompt_tokens=64, cached_tokens=0, output_tokens=32, token_source="usage",
    chunks=32, icl_s=(0.01,), itl_s=(0.01,), part="task/1", chain=0, step=1, draft_tokens=4,
    accepted_tokens=2, tool_calls="{}", warnings=("no_done",), finish_reason="stop", text="hi",
    t_send_ns=5, t_end_ns=9,
)  # fmt: skip
BAD = Sample(4, 1, ok=False, reason="connection_reset", detail="reset by peer")
BUFFERED = Sample(4, 2, ok=True, token_source="estimate", flags=("stream_buffered",))


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("schemas", ROOT / "protos/schemas.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(run, levels=()):
    """As a reader gets it."""
    return json.loads(json.dumps(run_object(run, levels), allow_nan=False))


RUNS = {
    "full": written(RUN, [MEASURED, SKIPPED, FAILED]),
    "begun": written(wire.run(contenders=())),
    "unreadable": written(wire.run(plan_json="{")),
}
LINES = {
    "good": sample_object(MEASURED, GOOD, keep_text=True),
    "failed": sample_object(FAILED, BAD, keep_text=False),
    "buffered": sample_object(MEASURED, BUFFERED, keep_text=False),
}


@pytest.mark.parametrize("case", RUNS)
def test_a_run_is_as_its_schema_says_and_has_no_key_beyond_it(case):
    assert complaints(RUNS[case], SCHEMAS["run"], closed=True) == []


@pytest.mark.parametrize("case", LINES)
def test_a_sample_is_as_its_schema_says_and_has_no_key_beyond_it(case):
    line = json.loads(json.dumps(LINES[case], allow_nan=False))
    assert complaints(line, SCHEMAS["sample"], closed=True) == []


def test_what_a_meter_adds_is_in_the_schema():
    points = [(t * 10**8, 5.0) for t in range(-5, 30)]
    trace = Trace(Series("wall", "W", "wall", points), False, 0.1, ("P",), 0)
    metered_levels = [metered.with_wall(level, trace) for level in RUNS["full"]["levels"]]
    told = {**RUNS["full"], "levels": metered_levels}
    assert metered_levels[0]["wall"]["joules"] == pytest.approx(10.0)
    assert complaints(told, SCHEMAS["run"]) == []


def test_levels_that_were_not_measured_have_the_same_keys_as_those_that_were():
    measured, skipped, failed = RUNS["full"]["levels"]
    assert list(measured) == list(skipped) == list(failed)
    assert all(skipped[name] is None and failed[name] is None for name in REGISTRY)
    assert all(measured[name] is not None for name in REGISTRY)


def test_the_terms_of_a_verdict_have_keys_that_do_not_change():
    verdict = RUNS["full"]["levels"][0]["verdict"]
    assert verdict["terms"] == {"weights": 90, "kv": 200, "load_generator": 10}
    assert "KV 4 x 512 x 23,040 B" in verdict["text"]


def test_what_nobody_told_of_a_contender_is_null():
    told = RUNS["full"]["contenders"][wire.LLAMA.id]
    assert (told["build"], told["model_sha256"], told["launcher"]) == (None, None, None)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "edgesweep.run/2"),
        (("state",), "done"),
        (("levels", 0, "status"), "ok"),
        (("levels", 0, "contender_id"), "llama"),
        (("levels", 0, "ttft_s"), 0.3),
        (("levels", 0, "ttft_s", "n"), None),
        (("levels", 0, "prompt_tokens"), 7.5),
        (("levels", 0, "n_ok"), True),
        (("levels", 0, "verdict", "terms", "kv"), "200"),
        (("levels", 1, "flags"), None),
        (("contenders", FULL.id, "settings", "threads"), 2),
        (("device", "labels"), []),
    ],
)
def test_the_schema_of_a_run_refuses_what_is_wrong(path, value):
    told = copy.deepcopy(RUNS["full"])
    *parents, last = path
    at = told
    for key in parents:
        at = at[key]
    at[last] = value
    where = "/" + "/".join(map(str, path))
    found = complaints(told, SCHEMAS["run"])
    assert found, where
    assert all(one.startswith(where) for one in found)


@pytest.mark.parametrize("name", ["run", "sample"])
def test_every_required_key_is_required(name):
    value = RUNS["full"] if name == "run" else LINES["good"]
    for key in SCHEMAS[name]["required"]:
        less = {k: v for k, v in value.items() if k != key}
        assert complaints(less, SCHEMAS[name]) == [f"/{key} is missing"]


@pytest.mark.parametrize(
    "path", sorted(WRITTEN.glob("*/*")), ids=lambda path: path.parent.name + "/" + path.name
)
def test_what_a_release_wrote_is_still_valid(path):
    """Never edited: a file here is what users of that release have."""
    if path.suffix == ".jsonl":
        for line in path.read_text().splitlines():
            assert complaints(json.loads(line), SCHEMAS["sample"]) == []
    else:
        assert complaints(json.loads(path.read_text()), SCHEMAS["run"]) == []


def test_releases_are_kept():
    assert {p.parent.name for p in WRITTEN.glob("*/run.json")} >= {"0.1.0"}


def test_keys_may_be_added_within_1():
    told = {**RUNS["full"], "more": 1, "levels": [{**RUNS["full"]["levels"][0], "more_s": 1.0}]}
    assert complaints(told, SCHEMAS["run"]) == []


def test_the_schema_has_the_registry(generator):
    schema = SCHEMAS["run"]
    assert (
        generator.schema_text(generator.with_registry(schema)) == generator.RUN_SCHEMA.read_text()
    )
    assert generator.broken_promises(schema["$defs"]["metrics"]) == []


def test_a_metric_that_goes_or_changes_its_type_is_told(generator):
    published = {
        "properties": {
            "gone_s": {"type": ["number", "null"]},
            "ttft_s": {"type": ["number", "null"]},
            "window_s": {"type": ["number", "null"]},
        }
    }
    assert generator.broken_promises(published) == [
        "gone_s was published and is gone",
        "ttft_s was published with another type",
    ]


def test_a_metric_that_is_added_is_not_required_of_old_files(generator):
    schema = copy.deepcopy(SCHEMAS["run"])
    metrics = schema["$defs"]["metrics"]
    metrics["required"].remove("ttft_s")
    del metrics["properties"]["ttft_s"]
    fresh = generator.with_registry(schema)
    assert "ttft_s" in fresh["$defs"]["metrics"]["properties"]
    assert "ttft_s" not in fresh["$defs"]["metrics"]["required"]


def keys(schema):
    return {
        key
        for part in [schema, *schema.get("$defs", {}).values()]
        for key in part.get("properties", {})
    }


@pytest.mark.parametrize("name", ["run", "sample"])
def test_every_key_is_documented(name):
    missing = [
        key for key in sorted(keys(SCHEMAS[name]) - REGISTRY.keys())
        if not re.search(rf"`(\w+\.)*{key}`|\"{key}\"", PAGE)
    ]  # fmt: skip
    assert missing == []
