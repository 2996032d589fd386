from __future__ import annotations

import json

import pytest

from edgesweep_agent.core.tool_schema import TOOLS, call_schema, fits, is_call, response_format

CALL = {"tool": "read_sensor", "arguments": {"sensor": "pressure", "minutes": 15}}


def changed(**fields):
    return {**CALL, **fields}


@pytest.mark.parametrize(
    "value",
    [
        CALL,
        {"arguments": {"minutes": 5.0, "sensor": "current"}, "tool": "read_sensor"},
        {"tool": "list_alarms", "arguments": {"line": "oven"}},
        {"sensor": "pressure", "minutes": 60},
    ],
)
def test_calls_of_a_tool(value):
    assert is_call(json.dumps(value, indent=1) + "\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would read the sensor.",
        json.dumps(CALL)[:-1],
        json.dumps(CALL) + " done",
        json.dumps([CALL]),
        json.dumps(changed(tool="read_sensors")),
        json.dumps(changed(tool="list_alarms")),
        json.dumps(changed(note="x")),
        json.dumps({"tool": "read_sensor"}),
        json.dumps(changed(arguments={"sensor": "pressure"})),
        json.dumps(changed(arguments={"sensor": "pressure", "minutes": "15"})),
        json.dumps(changed(arguments={"sensor": "pressure", "minutes": 16})),
        json.dumps(changed(arguments={"sensor": "pressure", "minutes": 15, "unit": "bar"})),
        json.dumps(changed(arguments="pressure")),
        "null",
        "{}",
        "[" * 100_000,
    ],
)
def test_what_is_no_call(text):
    assert not is_call(text)


def test_true_is_not_one():
    assert fits(1, {"enum": [1]})
    assert not fits(True, {"enum": [1]})


def test_constrained_output_always_ends():
    """Every value comes from a list: a free string could go on to the token limit."""
    schemas = [tool.schema["properties"]["arguments"] for tool in TOOLS]
    assert all(s["additionalProperties"] is False for s in (*schemas, *call_schema()["anyOf"]))
    assert all(set(p) == {"enum"} for s in schemas for p in s["properties"].values())
    assert response_format()["json_schema"]["schema"] == call_schema()
