"""A validator for the part of JSON Schema 2020-12 that our schemas use, and for no more of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
    "integer": int, "number": (int, float),
}  # fmt: skip
_ANNOTATIONS = {"$schema", "$id", "$defs", "title", "description"}
_CHECKED = {
    "type", "const", "enum", "pattern", "minimum", "required", "properties",
    "additionalProperties", "items", "$ref", "allOf",
}  # fmt: skip


def complaints(value: Any, root: dict, *, closed: bool = False) -> list[str]:
    """What in ``value`` is not as the schema says; ``closed`` also tells keys that it lacks."""
    found = list(_check(value, root, root, ""))
    return found + (list(_unlisted(value, root, root, "")) if closed else [])


def _check(value: Any, schema: dict, root: dict, at: str) -> Iterator[str]:
    unknown = schema.keys() - _ANNOTATIONS - _CHECKED
    assert not unknown, f"{unknown}: this validator has to learn them first"
    for part in _also(schema, root):
        yield from _check(value, part, root, at)
    yield from _scalar(value, schema, at)
    if isinstance(value, dict):
        yield from (
            f"{at}/{key} is missing" for key in schema.get("required", ()) if key not in value
        )
        for key, part in value.items():
            if (inner := _of_key(schema, key)) is not None:
                yield from _check(part, inner, root, f"{at}/{key}")
    if isinstance(value, list) and "items" in schema:
        for index, part in enumerate(value):
            yield from _check(part, schema["items"], root, f"{at}/{index}")


def _scalar(value: Any, schema: dict, at: str) -> Iterator[str]:
    if "type" in schema and not any(_is(value, kind) for kind in _list(schema["type"])):
        yield f"{at} is no {schema['type']}: {value!r}"
    if "const" in schema and value != schema["const"]:
        yield f"{at} is not {schema['const']!r}: {value!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is none of {schema['enum']}: {value!r}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{at} is not like {schema['pattern']}: {value!r}"
    if "minimum" in schema and _is(value, "number") and value < schema["minimum"]:
        yield f"{at} is below {schema['minimum']}: {value!r}"


def _unlisted(value: Any, schema: dict, root: dict, at: str) -> Iterator[str]:
    """Keys that no schema of an object names, for objects that name any."""
    parts = [schema, *_all(schema, root)]
    named = any("properties" in part for part in parts)
    if isinstance(value, dict):
        for key, inner in value.items():
            found = [one for part in parts if (one := _of_key(part, key)) is not None]
            if named and not found:
                yield f"{at}/{key} is not in the schema"
            for one in found:
                yield from _unlisted(inner, one, root, f"{at}/{key}")
    if isinstance(value, list):
        for part in parts:
            for index, inner in enumerate(value):
                yield from _unlisted(inner, part.get("items", {}), root, f"{at}/{index}")


def _also(schema: dict, root: dict) -> Iterator[dict]:
    if "$ref" in schema:
        yield root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    yield from schema.get("allOf", ())


def _all(schema: dict, root: dict) -> Iterator[dict]:
    for part in _also(schema, root):
        yield part
        yield from _all(part, root)


def _of_key(schema: dict, key: str) -> dict | None:
    return schema.get("properties", {}).get(key, schema.get("additionalProperties"))


def _is(value: Any, kind: str) -> bool:
    # In Python a truth value is a number.
    return isinstance(value, _TYPES[kind]) and (kind == "boolean") == isinstance(value, bool)


def _list(kinds: str | list[str]) -> list[str]:
    return [kinds] if isinstance(kinds, str) else kinds
