"""Managed llama.cpp: the ``llama-server`` binary (ggml-org/llama.cpp, tools/server).

Everything that could differ between two starts is pinned, and every cache is off unless the
plan asks for it: the prompt cache alone may take 8 GiB (ggml-org/llama.cpp#20509), and
``--fit`` would change what was asked for. ``-lv 4`` because sizes are logged no lower since
ggml-org/llama.cpp#23021; it costs about a kilobyte of log a request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgesweep_agent.core import helptext, serverlog
from edgesweep_agent.core.command import Command
from edgesweep_agent.errors import SettingsError

from . import identity
from .base import START_S

if TYPE_CHECKING:
    from edgesweep_agent.core.helptext import Ways
    from edgesweep_agent.core.serverlog import Reported
    from edgesweep_agent.plan import ManagedSpec, Speculative

    from .base import Gpu, Surroundings

BATCH, UBATCH = 2048, 512
KV_DTYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_ALL_LAYERS = 999
"""``all`` in builds that know the word, and more than any model has in those that do not."""
_OURS = ("--model", "-m", "--host", "--port", "--alias", "-a")
_RENAMED: dict[str, Ways] = {
    "--no-mmap": (("--load-mode", "none"), ("--no-mmap",)),
    "--mlock": (("--load-mode", "mlock"), ("--mlock",)),
    "--no-webui": (("--no-ui",), ("--no-webui",)),
    "--draft-max": (("--spec-draft-n-max",), ("--draft-max",)),
    "--model-draft": (("--spec-draft-model",), ("--model-draft",)),
}
"""What a plan may call by its old name: builds know one of them."""


class LlamaServer:
    """The binary, from the plan's ``program`` or from PATH."""

    name = "llama-server"
    engine = "llama.cpp"

    def check(self, spec: ManagedSpec) -> None:
        """Refuse what llama.cpp cannot do."""
        check(spec, self.name)

    def start_s(self, _gpu: Gpu) -> float:
        """It is ready once its weights are read."""
        return START_S

    def plan(self, spec: ManagedSpec, port: int, around: Surroundings) -> Command:
        """The command line; flags that this build does not know are dropped and recorded."""
        self.check(spec)
        _check_build(spec, around.help_text)
        flags = identity.own_flags(_today(spec.flags, around.help_text), _OURS, self.name)
        taken = [flag for flag in flags if flag.startswith("-")]
        fitted = helptext.fit(_wanted(spec, around), around.help_text, taken=taken)
        where = ("--host", around.host, "--port", str(port))
        model = ("--model", str(spec.model), "--alias", spec.model.stem)
        return Command(
            program=_program(spec),
            arguments=(*model, *where, *fitted.arguments, *flags),
            environment=dict(spec.environment),
            dropped=fitted.dropped,
            settings=identity.settings(spec, self.name, pinned(spec), fitted.dropped),
        )

    def help_command(self, spec: ManagedSpec) -> Command:
        """``--help``: it names every flag, removed ones too."""
        return Command(_program(spec), ("--help",), dict(spec.environment))

    def version_command(self, spec: ManagedSpec) -> Command:
        """``--version``: build number, commit and compiler."""
        return Command(_program(spec), ("--version",), dict(spec.environment))

    def devices_command(self, spec: ManagedSpec) -> Command:
        """``--list-devices``: builds without it answer with an error."""
        return Command(_program(spec), ("--list-devices",), dict(spec.environment))

    def read_version(self, text: str) -> str:
        """``b10573 (3f545becc)`` of ``version: 10573 (3f545becc)``."""
        match = re.search(r"version: (\d+) \((\w+)\)", text)
        return "" if match is None else f"b{match[1]} ({match[2]})"

    def reported(self, log_text: str) -> Reported:
        """Sizes from the log."""
        return serverlog.llamacpp(log_text)


def check(spec: ManagedSpec, server: str) -> None:
    """Refuse what no llama.cpp server can do.

    Raises:
        SettingsError: the key, and what to do.
    """
    identity.check(spec, server, "llama.cpp")
    identity.refuse(spec, server, {"kv_bytes": "its KV cache is slots x context_per_request"})
    if spec.kv_dtype and spec.kv_dtype not in KV_DTYPES:
        raise SettingsError(f"kv_dtype {spec.kv_dtype!r}: llama.cpp has {', '.join(KV_DTYPES)}")
    if (spec.ubatch or 0) > (spec.batch or BATCH):
        raise SettingsError(f"ubatch {spec.ubatch} is more than batch {spec.batch or BATCH}")


def pinned(spec: ManagedSpec) -> dict[str, object]:
    """What a managed llama.cpp is told, as settings of the contender."""
    if spec.as_shipped:
        return {}
    return {
        "batch": spec.batch or BATCH,
        "ubatch": min(spec.ubatch or UBATCH, spec.batch or BATCH),
        "kv_dtype": spec.kv_dtype or "f16",
        "gpu_layers": "all" if spec.gpu_layers is None else spec.gpu_layers,
    }


def is_quantized(kv_dtype: str) -> bool:
    """Whether a KV dtype packs blocks: quantized values need flash attention."""
    return kv_dtype not in {"", "f32", "f16", "bf16"}


def _program(spec: ManagedSpec) -> tuple[str, ...]:
    """An image knows its own program; on the machine it is on PATH."""
    if spec.program is None:
        return () if spec.image else ("llama-server",)
    return (str(spec.program),)


def _wanted(spec: ManagedSpec, around: Surroundings) -> list[Ways]:
    always: list[Ways] = [
        (("--metrics",),),
        (("--slots",),),
        (("--verbosity", "4"),),
        (("--no-ui",), ("--no-webui",)),
        (("--offline",),),
    ]
    return always if spec.as_shipped else [*_fixed(spec, around), *_caches(spec), *always]


def _fixed(spec: ManagedSpec, around: Surroundings) -> list[Ways]:
    settings = pinned(spec)
    slots, context = spec.slots or 0, spec.context_per_request or 0
    layers = _ALL_LAYERS if spec.gpu_layers is None else spec.gpu_layers
    ways: list[Ways] = [
        (("--parallel", str(slots)),),
        (("--ctx-size", str(slots * context)),),
        (("--no-kv-unified",),),
        (("--n-gpu-layers", str(layers)),),
        (("--fit", "off"),),
        (("--batch-size", str(settings["batch"])),),
        (("--ubatch-size", str(settings["ubatch"])),),
        (("--cache-type-k", str(settings["kv_dtype"])),),
        (("--cache-type-v", str(settings["kv_dtype"])),),
    ]
    if is_quantized(spec.kv_dtype):
        ways.append((_flash_attention(around.help_text),))
    if spec.threads is not None:
        ways.append((("--threads", str(spec.threads)),))
    if around.gpu == "unified":
        # A mapped file and its copy for the GPU would both be resident in the one memory.
        ways.append((("--load-mode", "none"), ("--no-mmap",)))
    return ways + ([] if spec.speculative is None else _speculative(spec.speculative))


def _caches(spec: ManagedSpec) -> list[Ways]:
    """The prompt cache in host memory stays off either way: it has no bound that the plan set."""
    prompt: Ways = (("--cache-prompt",),) if spec.prefix_cache else (("--no-cache-prompt",),)
    return [prompt, (("--cache-ram", "0"),), (("--ctx-checkpoints", "0"),)]


def _speculative(asked: Speculative) -> list[Ways]:
    """``ngram-*`` methods have sizes of their own, drafting ones share ``--spec-draft-n-max``."""
    tokens = str(asked.tokens)
    ways: list[Ways] = [(("--spec-type", asked.method),)]
    if asked.method == "ngram-mod":
        ways.append((("--spec-ngram-mod-n-max", tokens),))
    elif asked.method.startswith("ngram-") and asked.method != "ngram-cache":
        ways.append(((f"--spec-{asked.method}-size-m", tokens), ("--spec-ngram-size-m", tokens)))
    else:
        ways.append((("--spec-draft-n-max", tokens),))
    if asked.model is not None:
        model = str(asked.model)
        ways.append((("--spec-draft-model", model), ("--model-draft", model)))
    return ways


def _flash_attention(help_text: str) -> tuple[str, ...]:
    """Builds before September 2025 had a switch, later ones ``on``, ``off`` and ``auto``."""
    switch = re.search(r"--flash-attn\s*(?![\[{<]?on\b)[^\[{<\s]", help_text)
    return ("--flash-attn",) if switch else ("--flash-attn", "on")


def _today(flags: dict[str, str], help_text: str) -> dict[str, str]:
    """A plan's flags by the names that this build has."""
    found: dict[str, str] = {}
    for name, value in flags.items():
        ways = _RENAMED.get(name, ((name,),))
        way = next((way for way in ways if helptext.knows(way[0], help_text)), ways[-1])
        found[way[0]] = way[1] if len(way) > 1 else value
    return found


def _check_build(spec: ManagedSpec, help_text: str) -> None:
    """What is measured as speculative must not silently be something else."""
    if spec.speculative is not None and not helptext.knows("--spec-type", help_text):
        raise SettingsError(
            "this build of llama-server has no --spec-type, so no speculative decoding by "
            "method: take one from May 2026 or later, or leave speculative out"
        )
