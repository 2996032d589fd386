"""The tools that agent workloads offer, and whether an answer is a call of one of them.

Calls are checked here whatever the engine was asked to enforce: not every engine constrains its
output, and some say they do and do not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Schema = dict[str, Any]
"""A JSON schema of the few words that :func:`fits` knows."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool with its arguments: each one of a few values.

    Values are listed rather than free, so that constrained output always comes to an end: a
    small model may fill a free string up to its token limit.
    """

    name: str
    description: str
    arguments: Mapping[str, Sequence[str | int]]

    @property
    def schema(self) -> Schema:
        """What a call of it looks like."""
        arguments = {name: {"enum": list(values)} for name, values in self.arguments.items()}
        return _object({"tool": {"const": self.name}, "arguments": _object(arguments)})


TOOLS = (
    Tool(
        "read_sensor",
        "Latest values of one sensor.",
        {"sensor": ("pressure", "temperature", "vibration", "current"), "minutes": (5, 15, 60)},
    ),
    Tool("list_alarms", "Open alarms of a line.", {"line": ("press", "oven", "packing")}),
    Tool(
        "search_manual",
        "The manual's page about a component.",
        {"component": ("pump", "valve", "motor", "conveyor"), "topic": ("fault", "setting")},
    ),
    Tool("open_ticket", "Ask for a person.", {"urgency": ("today", "this_week")}),
)
"""What the agent of the agent workloads can do in its plant."""


def call_schema(tools: Sequence[Tool] = TOOLS) -> Schema:
    """What an answer must look like: one object, a call of one of the tools."""
    return {"anyOf": [tool.schema for tool in tools]}


def response_format(tools: Sequence[Tool] = TOOLS) -> dict[str, Any]:
    """The request field that asks for such an answer, as OpenAI, llama.cpp and vLLM take it."""
    wanted = {"name": "tool_call", "strict": True, "schema": call_schema(tools)}
    return {"type": "json_schema", "json_schema": wanted}


def is_call(text: str, tools: Sequence[Tool] = TOOLS) -> bool:
    """Whether an answer is one call of one of the tools, and nothing else.

    The arguments alone, as they stand in ``tool_calls``, count for a call too.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    arguments = {"anyOf": [tool.schema["properties"]["arguments"] for tool in tools]}
    return fits(value, call_schema(tools)) or fits(value, arguments)


def fits(value: object, schema: Schema) -> bool:
    """Whether a JSON value fits a schema of ``anyOf``, ``const``, ``enum`` and closed objects."""
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "const" in schema:
        return _same(value, schema["const"])
    if "enum" in schema:
        return any(_same(value, one) for one in schema["enum"])
    properties: dict[str, Schema] = schema["properties"]
    return (
        isinstance(value, dict)
        and value.keys() == properties.keys()
        and all(fits(value[name], one) for name, one in properties.items())
    )


def _same(value: object, other: object) -> bool:
    """JSON's equality: ``true`` is not 1, and 5.0 is 5."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _object(properties: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
