"""Which GPUs a managed contender takes memory of, by its plan: flags, environment, engine.

An index is NVML's, in the order of the bus. CUDA's own order is that of speed unless
``CUDA_DEVICE_ORDER=PCI_BUS_ID``: on a box with different GPUs a plan has to set it, or to name
them by UUID.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from edgesweep_agent.core.gpu_memory import GpuUse
from edgesweep_agent.core.model_shape import MOST_LAYERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgesweep_agent.core.gpu_memory import Gpu
    from edgesweep_agent.plan import ManagedSpec

_LAYERS = ("--n-gpu-layers", "--gpu-layers", "-ngl", "n_gpu_layers")
_NO_KV = ("--no-kv-offload", "-nkvo", "no_kv_offload")
_DEVICES = ("--device", "-dev")
_SPLIT_MODE = ("--split-mode", "-sm", "split_mode")
_MAIN_GPU = ("--main-gpu", "-mg", "main_gpu")
_TENSOR_SPLIT = ("--tensor-split", "-ts", "tensor_split")
"""llama.cpp's flags, and xllamacpp's names for them (tools/server/README.md)."""
_ALL_EXPERTS, _SOME_EXPERTS = ("--cpu-moe", "-cmoe"), ("--n-cpu-moe", "-ncmoe")
_OVERRIDE = ("--override-tensor", "-ot")
_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""``LLM_FFN_EXPS_REGEX`` of llama.cpp's common/common.h."""
_TENSOR_PARALLEL = ("--tensor-parallel-size", "-tp")
_PIPELINE_PARALLEL = ("--pipeline-parallel-size", "-pp")
_CPU_OFFLOAD = ("--cpu-offload-gb",)
"""vLLM's."""
_CUDA = re.compile(r"\s*CUDA(\d+)\s*", re.IGNORECASE)
_OFF = frozenset({"false", "0"})
_GIB = 2**30


def gpu_use(
    spec: ManagedSpec, gpus: Sequence[Gpu], environment: Mapping[str, str] = os.environ
) -> GpuUse | None:
    """Where a contender puts its model; ``None`` where host memory is all that it takes.

    Args:
        spec: The contender. ``gpu_layers = 0`` keeps it in host memory.
        gpus: Those with memory of their own.
        environment: What an engine on this machine inherits.
    """
    visible = _visible(spec, gpus, environment)
    use = _vllm(spec, visible) if spec.engine == "vllm" else _llamacpp(spec, visible)
    return use if use.indices and use.layers != 0 else None


def kept_on_host(spec: ManagedSpec) -> tuple[str, ...]:
    """Patterns of tensors that llama.cpp is told to keep off a GPU: experts, mostly."""
    found = [_EXPERTS] if _flag(spec, _ALL_EXPERTS) else []
    some = int(_number(spec, _SOME_EXPERTS, 0))
    found += [rf"blk\.{n}{_EXPERTS}" for n in range(min(some, MOST_LAYERS))]
    for word in (_flag(spec, _OVERRIDE) or "").split(","):
        pattern, _, where = word.rpartition("=")
        if where == "CPU":
            found.append(pattern)
    return tuple(found)


def _vllm(spec: ManagedSpec, visible: tuple[int, ...]) -> GpuUse:
    wanted = _number(spec, _TENSOR_PARALLEL, 1) * _number(spec, _PIPELINE_PARALLEL, 1)
    used = visible[: int(wanted)]
    return GpuUse(
        indices=used,
        shares=_even(len(used)),
        offload_bytes=round(_number(spec, _CPU_OFFLOAD, 0) * _GIB) * len(used),
    )


def _llamacpp(spec: ManagedSpec, visible: tuple[int, ...]) -> GpuUse:
    used = _devices(_flag(spec, _DEVICES), visible)
    shares: tuple[float, ...] = ()
    if _flag(spec, _SPLIT_MODE) == "none":
        main = int(_number(spec, _MAIN_GPU, 0))
        used = used[main : main + 1]
    elif split := _flag(spec, _TENSOR_SPLIT):
        used, shares = _split(split, used)
    return GpuUse(
        indices=used,
        shares=shares,
        layers=_layers(spec),
        kv=(_flag(spec, _NO_KV) or "false") in _OFF,
    )


def _layers(spec: ManagedSpec) -> int | None:
    """A flag has the last word; ``all``, ``auto`` and -1 are all of them."""
    told = _flag(spec, _LAYERS)
    if told is None:
        return spec.gpu_layers
    return int(told) if told.isdigit() else None


def _devices(told: str | None, visible: tuple[int, ...]) -> tuple[int, ...]:
    """``CUDA0,CUDA1`` counts what is visible; ``none`` is none."""
    if not told:
        return visible
    numbers = [int(found[1]) for word in told.split(",") if (found := _CUDA.fullmatch(word))]
    return tuple(visible[number] for number in numbers if number < len(visible))


def _split(told: str, used: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """``3,1``, or ``3/1``: a GPU without a part takes nothing; what is no split is ignored."""
    try:
        parts = [float(word) for word in re.split(r"[,/]", told)]
    except ValueError:
        return used, ()
    pairs = [(index, part) for index, part in zip(used, parts, strict=False) if part > 0]
    total = sum(part for _, part in pairs)
    if not pairs:
        return used, ()
    return tuple(index for index, _ in pairs), tuple(part / total for _, part in pairs)


def _visible(
    spec: ManagedSpec, gpus: Sequence[Gpu], environment: Mapping[str, str]
) -> tuple[int, ...]:
    """NVML's indices in the order that CUDA numbers them."""
    inherited = {} if spec.image else environment
    told = {**inherited, **spec.environment}.get("CUDA_VISIBLE_DEVICES")
    shown = [gpu for gpu in gpus if _passed(gpu, spec.flags.get("--gpus"))]
    if told is None:
        return tuple(gpu.index for gpu in shown)
    found: list[int] = []
    for word in (word.strip() for word in told.split(",")):
        match = next((gpu.index for at, gpu in enumerate(shown) if _is(word, at, gpu)), None)
        if match is None:
            # As CUDA has it: what follows a device that is none does not count.
            break
        found.append(match)
    return tuple(found)


def _passed(gpu: Gpu, told: str | None) -> bool:
    """Whether a container gets this GPU: ``--gpus device=0,2``; anything else passes all."""
    _, is_list, devices = (told or "").strip("'\"").partition("device=")
    return not is_list or any(
        _is(word.strip(), gpu.index, gpu) for word in devices.strip("'\"").split(",")
    )


def _is(word: str, at: int, gpu: Gpu) -> bool:
    """An index, or a UUID from its beginning on."""
    if word.isdigit():
        return int(word) == at
    return word.startswith("GPU-") and gpu.uuid.startswith(word)


def _even(count: int) -> tuple[float, ...]:
    return (1 / count,) * count if count else ()


def _flag(spec: ManagedSpec, names: Sequence[str]) -> str | None:
    """What a plan says by one of these names; of a switch, something to tell it by."""
    told = next((spec.flags[name] for name in names if name in spec.flags), None)
    return "set" if told == "" else told


def _number(spec: ManagedSpec, names: Sequence[str], default: float) -> float:
    try:
        return float(_flag(spec, names) or default)
    except ValueError:
        return default
