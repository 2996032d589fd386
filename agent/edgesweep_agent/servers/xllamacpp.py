"""Managed llama.cpp from PyPI's ``xllamacpp``: its server, prebuilt, in its own process.

Its settings are attributes of llama.cpp's ``common_params``, set one by one by
:mod:`edgesweep_agent.servers.xllamacpp_serve`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from edgesweep_agent.core import serverlog
from edgesweep_agent.core.command import Command
from edgesweep_agent.errors import SettingsError

from . import identity
from .base import START_S
from .llama_server import check, is_quantized, pinned

if TYPE_CHECKING:
    from edgesweep_agent.core.serverlog import Reported
    from edgesweep_agent.plan import ManagedSpec, Speculative

    from .base import Gpu, Surroundings

_SERVE = "edgesweep_agent.servers.xllamacpp_serve"
_OURS = frozenset({"model.path", "model_alias", "hostnames", "port"})
_ALL_LAYERS = "999"
_SIZES = {"ngram-simple": "size_m", "ngram-map-k": "size_m", "ngram-map-k4v": "size_m"}


class XLlamaCpp:
    """The package's server; it runs in the Python of the agent, or in ``program``."""

    name = "xllamacpp"
    engine = "llama.cpp"

    def check(self, spec: ManagedSpec) -> None:
        """Refuse what it cannot do."""
        check(spec, self.name)
        if spec.image:
            raise SettingsError(
                'server "xllamacpp" runs in a Python that has the agent: launcher = "process"; '
                'in a container write server = "llama-server"'
            )
        for name in spec.flags:
            if name in _OURS or name.startswith("-"):
                raise SettingsError(
                    f"flags: {name}: of xllamacpp these are attributes of its CommonParams, such "
                    'as "cpuparams.poll", and model, host and port are the agent\'s own'
                )

    def start_s(self, _gpu: Gpu) -> float:
        """It is ready once its weights are read."""
        return START_S

    def plan(self, spec: ManagedSpec, port: int, around: Surroundings) -> Command:
        """The command line; attributes that this version does not know are dropped and recorded."""
        self.check(spec)
        known = frozenset(around.help_text.split())
        wanted = {**_always(spec), **({} if spec.as_shipped else _fixed(spec))}
        dropped = tuple(
            f"{name}={value}"
            for name, value in wanted.items()
            if known and name not in known and name not in spec.flags
        )
        chosen = {name: value for name, value in wanted.items() if f"{name}={value}" not in dropped}
        return Command(
            program=_program(spec),
            arguments=(
                *("--model", str(spec.model), "--host", around.host, "--port", str(port)),
                *(f"--set={name}={value}" for name, value in {**chosen, **spec.flags}.items()),
            ),
            environment=dict(spec.environment),
            dropped=dropped,
            settings=identity.settings(spec, self.name, pinned(spec), dropped),
        )

    def help_command(self, spec: ManagedSpec) -> Command:
        """Lists the attributes that can be set."""
        return Command(_program(spec), ("--list",), dict(spec.environment))

    def version_command(self, spec: ManagedSpec) -> Command:
        """The package's version: its llama.cpp is built without one of its own (``b0-unknown``)."""
        return Command(_program(spec), ("--version",), dict(spec.environment))

    def devices_command(self, spec: ManagedSpec) -> Command:
        """The package's wheels are built for the CPU, or for one kind of GPU."""
        return Command(_program(spec), ("--list-devices",), dict(spec.environment))

    def read_version(self, text: str) -> str:
        """``xllamacpp 2026.10.11549``."""
        lines = [line for line in text.splitlines() if line.startswith("xllamacpp ")]
        return lines[0] if lines else ""

    def reported(self, log_text: str) -> Reported:
        """Sizes from the log."""
        return serverlog.llamacpp(log_text)


def _program(spec: ManagedSpec) -> tuple[str, ...]:
    return (str(spec.program or sys.executable), "-m", _SERVE)


def _always(spec: ManagedSpec) -> dict[str, str]:
    shipped = {"n_parallel": "-1"} if spec.as_shipped else {}
    return {
        **shipped,
        "endpoint_metrics": "true",
        "endpoint_slots": "true",
        "ui": "false",
        "offline": "true",
        "verbosity": "4",
    }


def _fixed(spec: ManagedSpec) -> dict[str, str]:
    settings = pinned(spec)
    slots, context = spec.slots or 0, spec.context_per_request or 0
    layers = _ALL_LAYERS if spec.gpu_layers is None else str(spec.gpu_layers)
    return {
        "n_parallel": str(slots),
        "n_ctx": str(slots * context),
        "kv_unified": "false",
        "fit_params": "false",
        "n_gpu_layers": layers,
        "n_batch": str(settings["batch"]),
        "n_ubatch": str(settings["ubatch"]),
        "cache_type_k": str(settings["kv_dtype"]),
        "cache_type_v": str(settings["kv_dtype"]),
        "cache_prompt": "true" if spec.prefix_cache else "false",
        "cache_ram_mib": "0",
        "n_ctx_checkpoints": "0",
        **({"flash_attn_type": "enabled"} if is_quantized(spec.kv_dtype) else {}),
        **({} if spec.threads is None else {"cpuparams.n_threads": str(spec.threads)}),
        **({} if spec.speculative is None else _speculative(spec.speculative)),
    }


def _speculative(asked: Speculative) -> dict[str, str]:
    """Each ``ngram-*`` method has sizes of its own; the drafting ones share the draft's."""
    found = {"speculative.types": asked.method}
    method = asked.method.replace("-", "_")
    if asked.method in _SIZES:
        found[f"speculative.{method}.{_SIZES[asked.method]}"] = str(asked.tokens)
    elif asked.method == "ngram-mod":
        found["speculative.ngram_mod.n_max"] = str(asked.tokens)
    elif asked.method != "ngram-cache":
        found["speculative.draft.n_max"] = str(asked.tokens)
    if asked.model is not None:
        found["speculative.draft.mparams.path"] = str(asked.model)
    return found
