"""Bring the metrics of the registry into the schema of a run's JSON, or check that they are there.

The schemas are written by hand but for this part. A format that is frozen only grows: a metric
that was published is never taken out nor given another type, and what is added is not required,
so that files of every earlier release go on being valid.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from edgesweep.metrics import REGISTRY, Metric, Shape

RUN_SCHEMA = Path(__file__).parent / "edgesweep/schemas/run.1.schema.json"


def main() -> int:
    """Write the schema anew, or compare; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    arguments = parser.parse_args()
    text = RUN_SCHEMA.read_text(encoding="utf-8")
    schema = json.loads(text)
    problems = broken_promises(schema["$defs"]["metrics"])
    for problem in problems:
        print(f"{RUN_SCHEMA.name}: {problem}", file=sys.stderr)
    fresh = schema_text(with_registry(schema))
    if problems or not arguments.check:
        if not problems:
            RUN_SCHEMA.write_text(fresh, encoding="utf-8")
        return 1 if problems else 0
    if fresh != text:
        print(f"{RUN_SCHEMA.name} lacks metrics: run make protos", file=sys.stderr)
    return 0 if fresh == text else 1


def broken_promises(published: dict[str, Any]) -> list[str]:
    """What the registry would take away from a format that only grows; one line each."""
    wanted = {name: _property(metric) for name, metric in REGISTRY.items()}
    gone = [f"{name} was published and is gone" for name in published["properties"].keys() - wanted]
    changed = [
        f"{name} was published with another type"
        for name, property_ in published["properties"].items()
        if name in wanted and _type(property_) != _type(wanted[name])
    ]
    return sorted(gone + changed)


def with_registry(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with every registered metric; which ones are required stays as it is."""
    metrics = dict(schema["$defs"]["metrics"])
    metrics["properties"] = {name: _property(metric) for name, metric in REGISTRY.items()}
    return {**schema, "$defs": {**schema["$defs"], "metrics": metrics}}


def schema_text(schema: dict[str, Any]) -> str:
    """As the file has it."""
    return json.dumps(schema, indent=2) + "\n"


def _property(metric: Metric) -> dict[str, Any]:
    unit = "" if metric.unit == "1" else f" In {metric.unit}."
    described = {"description": metric.description + unit}
    if metric.shape is Shape.DISTRIBUTION:
        return {"$ref": "#/$defs/distribution", **described}
    return {"type": ["integer" if metric.integer else "number", "null"], **described}


def _type(property_: dict[str, Any]) -> object:
    return property_.get("$ref") or property_.get("type")


if __name__ == "__main__":
    sys.exit(main())
