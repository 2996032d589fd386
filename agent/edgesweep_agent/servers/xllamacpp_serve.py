"""Run by exec: serves one GGUF model with llama.cpp's HTTP API until told to stop.

Knows no settings of its own: ``--set NAME=VALUE`` sets an attribute of ``CommonParams``
(``n_ctx``, ``cpuparams.n_threads``), ``--list`` names those that there are;
``--list-devices`` is llama-server's.
"""

from __future__ import annotations

import argparse
import signal
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import xllamacpp

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIMPLE = (bool, int, float, str, list, Enum)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = _parser()
    arguments = parser.parse_args()
    parameters = xllamacpp.CommonParams()
    if arguments.list:
        print("\n".join(_names(parameters)))
        return
    if arguments.list_devices:
        print("\n".join(_devices()))
        return
    if arguments.model is None or arguments.port is None:
        parser.error("argument --model: needed, and so is --port")
    _place(parameters, arguments)
    for setting in arguments.set:
        try:
            _set(parameters, setting)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            parser.error(f"argument --set {setting}: {error}")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    server = xllamacpp.Server(parameters)
    print(f"listening on {server.listening_address}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del server


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--list-devices", action="store_true")
    parser.add_argument("--version", action="version", version=f"xllamacpp {version('xllamacpp')}")
    return parser


def _devices() -> Iterator[str]:
    yield "Available devices:"
    for one in xllamacpp.get_device_info():
        if not one["type"].name.endswith("_CPU"):
            total, free = (one[key] >> 20 for key in ("memory_total", "memory_free"))
            yield f"  {one['name']}: {one['description']} ({total} MiB, {free} MiB free)"


def _place(parameters: xllamacpp.CommonParams, arguments: argparse.Namespace) -> None:
    parameters.model.path = str(arguments.model)
    parameters.model_alias = {arguments.model.stem}
    parameters.hostnames = [arguments.host]
    parameters.port = arguments.port


def _set(parameters: xllamacpp.CommonParams, setting: str) -> None:
    path, _, text = setting.partition("=")
    *owners, name = path.split(".")
    owner = parameters
    for part in owners:
        owner = getattr(owner, part)
    setattr(owner, name, _value(getattr(owner, name), text))


def _value(now: object, text: str) -> object:
    """The text as what the attribute is now: it has the type that is meant."""
    if isinstance(now, list):
        return [_value(now[0], part) if now else part for part in text.split(",")]
    if isinstance(now, bool):
        return {"true": True, "false": False}[text]
    if isinstance(now, Enum):
        return _member(type(now), text)
    if isinstance(now, (int, float)):
        return type(now)(text)
    return text


def _member(kind: type[Enum], text: str) -> Enum:
    """``ngram-simple`` is ``COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE``, the shortest that ends so."""
    ending = "_" + text.upper().replace("-", "_")
    fitting = [member for member in kind if member.name.endswith(ending)]
    if not fitting:
        raise ValueError(f"no {text!r} in {kind.__name__}")
    return min(fitting, key=lambda member: len(member.name))


def _names(owner: object, prefix: str = "") -> Iterator[str]:
    for name in dir(owner):
        if name.startswith("_"):
            continue
        value = getattr(owner, name)
        if isinstance(value, _SIMPLE):
            yield prefix + name
        elif type(value).__module__.startswith("xllamacpp"):
            yield from _names(value, f"{prefix}{name}.")


if __name__ == "__main__":
    main()
