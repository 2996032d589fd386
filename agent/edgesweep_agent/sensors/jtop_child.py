"""Talks to the jtop service and writes one JSON line a second: ``python -m`` this module.

A process of its own, since importing jtop makes ``multiprocessing`` fork, its calls can hang,
and its errors are of many kinds.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import TYPE_CHECKING, Any

from edgesweep_agent.core import jtop_values

if TYPE_CHECKING:
    from collections.abc import Callable

_TABLES = ("memory", "gpu", "power", "temperature", "fan")


def follow(client: Any, say: Callable[[str], object]) -> None:
    """Say a line for every update of the service, until it falls silent."""
    while client.ok():
        say(json.dumps(jtop_values.flatten(_read(client))))


def _read(client: Any) -> dict[str, Any]:
    """Its tables; one that raises is left out."""
    tables: dict[str, Any] = {}
    for name in _TABLES:
        try:
            told = getattr(client, name)
            tables[name] = {key: told[key] for key in told}
        except Exception:  # noqa: BLE001, S112 - KeyError, its own, its transport's: all happen
            continue
    return tables


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Follow the service; an error is the last line."""
    try:
        module = importlib.import_module("jtop")
        with module.jtop(interval=1.0) as client:
            follow(client, _say)
    except BrokenPipeError:
        return 0
    except Exception as error:  # noqa: BLE001 - not started, no rights, other version, queue.Empty
        _say(json.dumps({"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
