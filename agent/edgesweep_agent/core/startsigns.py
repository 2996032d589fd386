"""Last words of servers that did not start, and what they mean.

The wordings are those of llama.cpp (tools/server, src/llama-kv-cache.cpp, ggml) and of vLLM
(v1/core/kv_cache_utils.py, v1/worker); both change them. The first sign that is found counts,
so what says more stands before what says less.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from .startfacts import StartFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from .startfacts import Asked

_MIB, _GIB = 1 << 20, 1 << 30
_ROUNDED_GIB = 0.005
"""What two decimals may hide."""


def _say(kind: str, text: str, next_step: str) -> Callable[..., StartFailure]:
    """A judgement without figures; ``{0}``, ``{1}`` are what the pattern caught."""

    def judge(match: re.Match[str], _log: str, asked: Asked) -> StartFailure:
        words = [group or "" for group in match.groups()]
        named = {"server": asked.server, "model": asked.model}
        return StartFailure(kind, text.format(*words, **named), next_step.format(*words, **named))

    return judge


def _port_taken(match: re.Match[str], _log: str, asked: Asked) -> StartFailure:
    port = asked.port or next((int(group) for group in match.groups() if group), 0)
    return StartFailure(
        "port_taken",
        f"port {port} is taken by another program",
        "start again: each start looks for a free port; ss -ltnp shows who has it",
        {"port": float(port)},
    )


def _vllm_kv(match: re.Match[str], log: str, _asked: Asked) -> StartFailure:
    wanted, needed_gib, there_gib = match[1], float(match[2]), float(match[3])
    figures = {
        "needed_bytes": needed_gib * _GIB,
        "available_bytes": there_gib * _GIB,
        "context_asked": float(wanted),
    }
    fitting = re.search(r"estimated maximum model length is (\d+)", log)
    step = f"raise kv_bytes to {math.ceil((needed_gib + _ROUNDED_GIB) * _GIB)}"
    if fitting is not None:
        figures["context_that_fits"] = float(fitting[1])
        step = f"lower context_per_request to {fitting[1]}, or {step}"
    return StartFailure(
        "kv_too_large",
        f"the KV cache does not fit: one request of {wanted} tokens needs {needed_gib:g} GiB, "
        f"there are {there_gib:g} GiB",
        step,
        figures,
    )


def _llamacpp_kv(_match: re.Match[str], log: str, asked: Asked) -> StartFailure:
    failed = _failed_bytes(log)
    there = _free_bytes(log, asked)
    figures: dict[str, float] = {}
    text, step = "the KV cache does not fit", "lower slots or context_per_request"
    if failed is not None:
        figures["needed_bytes"] = float(failed)
        text += f": {failed / _MIB:.0f} MiB could not be had"
    if there is not None:
        figures["available_bytes"] = float(there)
        text += f", about {there / _MIB:.0f} MiB are there"
    if failed and there and asked.tokens and asked.slots and asked.context_per_request:
        per_token = failed / asked.tokens
        tokens = int(there / per_token)
        context, slots = tokens // asked.slots, tokens // asked.context_per_request
        figures |= {"kv_bytes_per_token": per_token}
        figures |= {"context_that_fits": float(context), "slots_that_fit": float(slots)}
        fits = f"with {asked.slots} slots a context_per_request of {context} would fit"
        if slots:
            fits += f", with {asked.context_per_request} tokens each {slots} slots"
        step = f"{fits}; leave room for the rest"
    return StartFailure("kv_too_large", text, step, figures)


def _failed_bytes(log: str) -> int | None:
    """The allocation that failed: in bytes (ggml_backend), or in MiB (CUDA, aligned malloc)."""
    match = re.search(r"failed to allocate (?:\w+ )?buffer of size (\d+)", log)
    if match is not None:
        return int(match[1])
    match = re.search(r"allocating ([\d.]+) MiB on device", log)
    match = match or re.search(r"attempted to allocate\s+([\d.]+) MB", log)
    return None if match is None else round(float(match[1]) * _MIB)


def _free_bytes(log: str, asked: Asked) -> int | None:
    """What was there for the KV cache: free memory less the weights, and what the caller knows.

    llama.cpp lists its devices as ``- CUDA0 : NAME (7607 MiB, 6890 MiB free)``.
    """
    device = re.search(r"on device (\d+): cudaMalloc failed", log)
    name = "CPU" if device is None else rf"CUDA{device[1]}"
    free = re.search(rf"\b{name}\b.*\(\d+ MiB, (\d+) MiB free\)", log)
    told = None
    if free is not None:
        weights = re.findall(rf"{name}\w* model buffer size\s*=\s*([\d.]+) MiB", log)
        told = max(0, round((int(free[1]) - sum(map(float, weights))) * _MIB))
    known = [size for size in (told, asked.available_bytes) if size is not None]
    return min(known) if known else None


def _gpu_memory(_match: re.Match[str], log: str, asked: Asked) -> StartFailure:
    failed, there = _failed_bytes(log), _free_bytes(log, asked)
    tried = re.search(r"Tried to allocate ([\d.]+) (MiB|GiB)", log)
    if tried is not None:
        failed = round(float(tried[1]) * (_MIB if tried[2] == "MiB" else _GIB))
    figures = {
        name: float(size)
        for name, size in (("needed_bytes", failed), ("available_bytes", there))
        if size is not None
    }
    how_much = "" if failed is None else f" ({failed / _MIB:.0f} MiB could not be had)"
    return StartFailure(
        "gpu_memory",
        f"the GPU's memory ran out{how_much}",
        "end what else uses the GPU; lower gpu_layers, slots, context_per_request or ubatch",
        figures,
    )


def _vllm_startup_memory(match: re.Match[str], _log: str, _asked: Asked) -> StartFailure:
    free, total, share, wanted = (float(group) for group in match.groups())
    return StartFailure(
        "gpu_memory",
        f"{free:g} of {total:g} GiB are free on the device, vLLM wants {wanted:g} "
        f"({share:g} of all)",
        f"end what else uses the memory, or set flags --gpu-memory-utilization to less than "
        f"{free / total:.2f}",
        {
            "available_bytes": free * _GIB,
            "total_bytes": total * _GIB,
            "needed_bytes": wanted * _GIB,
            "utilization": share,
        },
    )


def _vllm_cpu_memory(match: re.Match[str], _log: str, _asked: Asked) -> StartFailure:
    free, total, wanted = (float(group) for group in match.groups())
    return StartFailure(
        "ram",
        f"{free:g} of {total:g} GiB of memory are available, vLLM wants {wanted:g}",
        "lower kv_bytes, slots or context_per_request, or set flags --gpu-memory-utilization lower",
        {
            "available_bytes": free * _GIB,
            "total_bytes": total * _GIB,
            "needed_bytes": wanted * _GIB,
        },
    )


def _ram(match: re.Match[str], log: str, _asked: Asked) -> StartFailure:
    caught = next((group for group in match.groups() if group), None)
    failed = int(caught) if caught else _failed_bytes(log)
    figures = {} if failed is None else {"needed_bytes": float(failed)}
    how_much = "" if failed is None else f" ({failed / _MIB:.0f} MiB could not be had)"
    return StartFailure(
        "ram",
        f"memory ran out{how_much}",
        "lower slots, context_per_request or ubatch, or take a smaller model; a limit of the "
        "cgroup or of the unit (MemoryMax, LimitAS) may be the reason",
        figures,
    )


_KV_SIGNS = (
    (
        _vllm_kv,
        (
            r"max seq len \((\d+)\),? \(?([\d.]+) GiB KV cache is needed, which is larger than "
            r"the available KV cache memory \(([\d.]+) GiB"
        ),
    ),
    (
        _say(
            "kv_too_large",
            "no memory is left for vLLM's KV cache after weights and profiling",
            "set kv_bytes, lower batch or slots, or raise flags --gpu-memory-utilization",
        ),
        "No available memory for the cache blocks",
    ),
    (
        _say(
            "kv_too_large",
            "the state of so many requests does not fit: that of {0} does",
            "lower slots to {0}",
        ),
        r"exceeds available Mamba cache blocks \((\d+)\)",
    ),
    (
        _llamacpp_kv,
        "failed to allocate buffer for kv cache",
        "failed to initialize the context: failed to allocate",
    ),
)
_MEMORY_SIGNS = (
    (
        _vllm_startup_memory,
        (
            r"Free memory on device \S+ \(([\d.]+)/([\d.]+) GiB\) on startup is less than "
            r"desired GPU memory utilization \(([\d.]+), ([\d.]+) GiB\)"
        ),
    ),
    (
        _vllm_cpu_memory,
        (
            r"Available memory on node \S+ \(([\d.]+)/([\d.]+) GiB\) on \w[\w ]*\s+is less than "
            r"(?:requested memory for kv|desired CPU memory utilization)"
            r" \((?:[\d.]+, )?([\d.]+) GiB"
        ),
    ),
    (
        _say(
            "memory_moved",
            "another program took or freed memory while vLLM measured it",
            "start again on a quiet machine, and set kv_bytes",
        ),
        r"Error in memory profiling\. Initial free memory",
    ),
    (
        _say(
            "gpu_memory",
            "the GPU's memory ran out at vLLM's warm-up with {0} requests",
            "lower slots, or kv_bytes",
        ),
        r"out of memory occurred when warming up sampler with (\d+) dummy requests",
    ),
    (
        _gpu_memory,
        "cudaMalloc failed: out of memory",
        "CUDA out of memory",
        "CUDA error: out of memory",
        "OutOfMemoryError",
        r"NvMapMemAlloc\w* error",
    ),
    (
        _ram,
        r"DefaultCPUAllocator: [^\n]*you tried to allocate (\d+) bytes",
        r"insufficient memory \(attempted",
        "std::bad_alloc",
        r"\bMemoryError\b",
        "Cannot allocate memory",
        "failed to allocate compute",
    ),
)
_MODEL_SIGNS = (
    (
        _say(
            "model_missing",
            "the engine cannot open model {model}: {0}{1}",
            "correct model, or the rights of the file and its folders",
        ),
        r"failed to open(?: GGUF file)? '[^']*'(?: \(([^)]+)\)|: '?([^'\n]+))?",
    ),
    (
        _say(
            "not_a_model",
            "{model} is no GGUF file",
            "give a .gguf file; a download may have stored a web page or a Git LFS pointer",
        ),
        "invalid magic characters",
        "failed to read magic",
    ),
    (
        _say(
            "not_a_model",
            "{model} is cut short: data of a tensor is missing",
            "download it again, and compare its size and hash",
        ),
        "is not within the file bounds",
        "model is corrupted or incomplete",
    ),
    (
        _say(
            "not_a_model",
            "this build of {server} does not know the model's architecture {0}{1}",
            "take a newer build of {server}, or another model",
        ),
        "unknown model architecture: '([^']+)'",
        r"Model architectures (\[[^]]*\]) (?:are not|failed)",
    ),
    (
        _say(
            "model_missing",
            "{model} is no folder with a model in Hugging Face's layout",
            "give the folder with config.json, the tokenizer and *.safetensors",
        ),
        "Invalid repository ID or local directory",
        "Can't load the configuration of",
        r"does not appear to have a file named",
        "Cannot find any model weights",
        "Repo id must (?:be in|use)",
        r"couldn't connect to .https://huggingface\.co",
    ),
    (
        _say(
            "not_a_model",
            "{model} is no model that {server} can read",
            "check config.json and the *.safetensors in the folder",
        ),
        "Unrecognized model in",
        "Error while deserializing header",
    ),
)
_PROGRAM_SIGNS = (
    (
        _port_taken,
        r"couldn't bind HTTP server socket, hostname: \S+, port: (\d+)",
        "[Aa]ddress already in use",
        "port is already allocated",
    ),
    (
        _say(
            "container",
            "the container could not be started: {0}",
            "correct --runtime, --gpus and program; docker info lists the runtimes",
        ),
        (
            r"(?:docker|podman|Error): (?:Error response from daemon: )?([^\n]*"
            r"(?:OCI runtime|unknown or invalid runtime|could not select device driver)[^\n]*)"
        ),
    ),
    (
        _say(
            "missing_library",
            "a library is missing: {0}{1}{2}",
            "install what has it (ldd shows all), or take a build for this system",
        ),
        r"error while loading shared libraries: ([^:\s]+)",
        r"ImportError: (lib[^:\s]+): cannot open",
        r"symbol lookup error: (\S+)",
    ),
    (
        _say(
            "missing_library",
            "the Python that starts {server} has no module {0}{1}{2}",
            "install {server} there, or give the right Python as program",
        ),
        r"ModuleNotFoundError: No module named '?([\w.]+)",
        r"python[\d.]*: No module named (\S+)",
        r"PackageNotFoundError: No package metadata was found for (\S+)",
    ),
    (
        _say(
            "bad_argument",
            "{server} does not take {0}{1}{2} {3}",
            "correct it under flags in the plan; --help of this build lists what it has",
        ),
        r"error: (?:unrecognized arguments|invalid argument|unknown argument): ([^\n]+)",
        r"error while handling argument \"([^\"]+)\"",
        r"error: argument ([^:\n]+): ([^\n]*)",
    ),
    (
        _say(
            "bad_argument",
            "{server} refuses its settings ({0}): {1}",
            "correct them in the plan",
        ),
        r"validation errors? for (\w+)\s+([^\n]+)",
    ),
)
SIGNS: tuple[tuple[re.Pattern[str], Callable[..., StartFailure]], ...] = tuple(
    (re.compile("|".join(patterns)), judge)
    for judge, *patterns in (*_KV_SIGNS, *_MEMORY_SIGNS, *_MODEL_SIGNS, *_PROGRAM_SIGNS)
)
"""What to look for, and how to judge it."""
