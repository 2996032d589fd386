"""A run as JSON: strict, complete, and null where nothing was measured."""

from __future__ import annotations

import json
import math

import wire
from edgesweep.metrics import REGISTRY, Shape
from edgesweep.records import Distribution, LevelStatus
from edgesweep.run_json import level_object, run_object


def test_a_run_has_the_keys_of_the_contract():
    run = run_object(wire.run(), [wire.level(1), wire.level(2)])
    assert list(run) == [
        "schema", "run_id", "state", "reason", "started_at_ns", "ended_at_ns", "device", "plan",
        "contenders", "workloads", "levels",
    ]  # fmt: skip
    assert run["schema"] == "edgesweep.run/1"
    assert run["plan"] == {"levels": [1, 2]}
    assert run["device"]["labels"] == {"site": "ulm"}
    assert run["contenders"][wire.LLAMA.id]["settings"] == {"threads": "4"}
    assert [level["concurrency"] for level in run["levels"]] == [1, 2]


def test_a_level_has_every_registered_metric():
    level = level_object(wire.level(4))
    for metric in REGISTRY.values():
        assert metric.name in level
    assert level["contender_id"] == wire.LLAMA.id
    assert (level["workload"], level["status"]) == ("chat-512-128", "valid")
    assert level["flags"] == ["throttled"]
    assert level["flag_details"] == [
        {"name": "throttled", "value": 0.2, "threshold": 0.05, "detail": "cpu"}
    ]
    assert level["ttft_s"] == {
        "n": 20, "mean": 0.3, "min": 0.1, "max": 0.5,
        "p50": 0.29, "p90": None, "p95": None, "p99": None,
    }  # fmt: skip
    assert (level["e2e_s"], level["requests_per_s"]) == (None, None)
    assert level["output_tokens_per_s"] == 40.5
    assert (level["prompt_tokens"], type(level["prompt_tokens"])) == (10240, int)
    assert level["block_output_tokens_per_s"] == [40.0, 41.0]


def test_what_is_not_finite_is_null():
    level = wire.level(
        1,
        status=LevelStatus.FAILED,
        values={m.name: math.nan for m in REGISTRY.values() if m.shape is Shape.SCALAR},
        distributions={"ttft_s": Distribution(1, math.inf, -math.inf, math.nan, p50=math.nan)},
        block_output_tokens_per_s=(math.nan,),
    )
    text = json.dumps(level_object(level), allow_nan=False)
    assert json.loads(text)["ttft_s"]["mean"] is None


def test_a_contender_known_from_a_level_alone_is_listed():
    run = run_object(wire.run(), [wire.level(1, contender=wire.VLLM)])
    assert {c["name"] for c in run["contenders"].values()} == {"llama", "vllm"}


def test_any_plan_gives_strict_json():
    for text in ("", "[1]", "{", "null", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000):
        run = run_object(wire.run(plan_json=text), [])
        json.dumps(run, allow_nan=False)
        assert isinstance(run["plan"], dict)
    assert run_object(wire.run(plan_json="[1]"), [])["plan"] == {"unreadable": "[1]"}
    assert run_object(wire.run(plan_json='{"a": 1e999}'), [])["plan"] == {"a": None}
