"""What of an engine lies in the memory of a GPU, and what stays in that of the host."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import add
from typing import TYPE_CHECKING

from .verdict import LlamaCpp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .gguf import GgufHeader, Tensor
    from .gpu_memory import GpuUse
    from .model_shape import ModelShape
    from .verdict import Setup, Terms, Vllm

_MIB = 2**20
_LAYER = re.compile(r"blk\.(\d+)\.")
_INPUT = ("token_embd", "position_embd", "token_types")
"""What llama.cpp keeps on the CPU whatever ``-ngl`` says (src/llama-model.cpp, ``dev_input``)."""


@dataclass(frozen=True, slots=True)
class CudaCost:
    """What CUDA takes beside what an engine asks of it: of each GPU, and of the host."""

    gpu_bytes: int
    host_bytes: int


CUDA_LLAMACPP = CudaCost(512 * _MIB, 300 * _MIB)
CUDA_VLLM = CudaCost(1024 * _MIB, 1024 * _MIB)
"""Context, kernels and work space of cuBLAS; for vLLM its graphs and PyTorch's cache as well.
Assumed, not measured: of GPUs of 6 to 24 GB the drivers' own figures differ by hundreds of MiB."""


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Bytes of a GGUF's tensors by where llama.cpp can put them.

    ``output_bytes`` has the token embedding a second time where it serves as output as well:
    llama.cpp then loads it for both. ``kept_bytes`` are those of each layer that the plan keeps
    off a GPU wherever the layer goes; ``layer_bytes`` the others.
    """

    input_bytes: int
    output_bytes: int
    layer_bytes: tuple[int, ...]
    kept_bytes: tuple[int, ...] = ()

    def gpu_bytes(self, layers: int | None) -> int:
        """With so many layers there."""
        start = self.first_on_gpu(layers)
        return sum(self.layer_bytes[start:]) + (self.output_bytes if layers != 0 else 0)

    def host_bytes(self, layers: int | None) -> int:
        """What stays."""
        return self.input_bytes + sum(self.copied_bytes(layers))

    def copied_bytes(self, layers: int | None) -> tuple[int, ...]:
        """Of each layer what stays, and is copied to the GPU for the batches of a prompt."""
        start = self.first_on_gpu(layers)
        stays = (*self.layer_bytes[:start], *(0 for _ in self.layer_bytes[start:]))
        kept = self.kept_bytes or (0,) * len(stays)
        return tuple(map(add, stays, kept))

    def first_on_gpu(self, layers: int | None) -> int:
        """The first layer on a GPU: the output is the first to go there, then the last layers."""
        return 0 if layers is None else max(0, len(self.layer_bytes) + 1 - max(layers, 1))


@dataclass(frozen=True, slots=True)
class Placed:
    """What an engine needs, by term and by pool, and the arithmetic of its KV in each."""

    gpu: Terms
    host: Terms
    gpu_kv_text: str = ""
    host_kv_text: str = ""
    mapped_bytes: int = 0


def layer_weights(headers: Sequence[GgufHeader], kept: Sequence[str] = ()) -> LayerWeights:
    """Of a model's file, or of all files it is split over.

    Args:
        headers: Theirs.
        kept: Patterns of names of tensors that stay in host memory (``--override-tensor``); one
            that is no pattern matches nothing.
    """
    tensors = [tensor for header in headers for tensor in header.tensors]
    stays = _pattern(kept)
    layers: dict[int, int] = {}
    held: dict[int, int] = {}
    parts = {"input": 0, "output": 0}
    for tensor in tensors:
        if match := _LAYER.match(tensor.name):
            into, n = held if stays(tensor.name) else layers, int(match[1])
            into[n] = into.get(n, 0) + tensor.n_bytes
        else:
            is_input = tensor.name.startswith(_INPUT) or stays(tensor.name)
            parts["input" if is_input else "output"] += tensor.n_bytes
    count = max((*layers, *held), default=-1) + 1
    return LayerWeights(
        input_bytes=parts["input"],
        output_bytes=parts["output"] + _tied_bytes(tensors),
        layer_bytes=tuple(layers.get(n, 0) for n in range(count)),
        kept_bytes=tuple(held.get(n, 0) for n in range(count)) if held else (),
    )


def _tied_bytes(tensors: Sequence[Tensor]) -> int:
    """Of the token embedding, where there is no output of its own."""
    sizes = {tensor.name: tensor.n_bytes for tensor in tensors}
    return 0 if "output.weight" in sizes else sizes.get("token_embd.weight", 0)


def _pattern(patterns: Sequence[str]) -> Callable[[str], object]:
    known = []
    for pattern in patterns:
        with suppress(re.error):
            known.append(re.compile(pattern))
    return lambda name: any(one.search(name) for one in known)


def placed(
    setup: Setup, shape: ModelShape, use: GpuUse, weights: LayerWeights | None = None
) -> Placed:
    """Divide what ``setup`` needs between the GPUs in use and the host.

    Args:
        setup: How the engine is started.
        shape: The model.
        use: Where it is told to put it.
        weights: Of a GGUF; without them all weights are taken to go to the GPU.

    Raises:
        ShapeError: the set-up cannot be used with this model.
    """
    if isinstance(setup, LlamaCpp):
        return _llamacpp(setup, shape, use, weights)
    return _vllm(setup, shape, use)


def _llamacpp(
    setup: LlamaCpp, shape: ModelShape, use: GpuUse, weights: LayerWeights | None
) -> Placed:
    """Layer by layer, the KV cache with them; logits are read from host memory.

    Where layers stay, both sides compute, and those of a prompt's batch are copied to the GPU one
    after another (ggml's scheduler, ``offload_op``).
    """
    needs, n = dict(setup.needs(shape)), len(use.indices)
    known = weights or LayerWeights(0, shape.weight_bytes, (0,) * len(shape.layers))
    start = known.first_on_gpu(use.layers)
    there = replace(shape, layers=shape.layers[start:] if use.kv else ())
    here = replace(shape, layers=shape.layers[:start] if use.kv else shape.layers)
    kept, copied = known.host_bytes(use.layers), max(known.copied_bytes(use.layers), default=0)
    gpu = (
        ("weights", known.gpu_bytes(use.layers)),
        ("kv", setup.kv_bytes(there)),
        ("compute", needs["compute"] * n),
        ("copied layer", copied),
        ("CUDA", CUDA_LLAMACPP.gpu_bytes * n),
    )
    host = (
        ("weights", kept),
        ("kv", setup.kv_bytes(here)),
        ("compute", needs["compute"] if here.layers or copied else 0),
        *((name, needs[name]) for name in ("output", "requests", "process", "libraries")),
        ("CUDA", CUDA_LLAMACPP.host_bytes),
    )
    return Placed(
        gpu=_told(gpu),
        host=_told(host),
        gpu_kv_text=setup.kv_text(there),
        host_kv_text=setup.kv_text(here),
        mapped_bytes=setup.calibration.library_bytes + kept * setup.maps_weights,
    )


def _vllm(setup: Vllm, shape: ModelShape, use: GpuUse) -> Placed:
    """Everything that a model is made of is on the GPUs; with several, each has its activations."""
    needs, n = dict(setup.needs(shape)), len(use.indices)
    kept = min(use.offload_bytes, shape.weight_bytes)
    gpu = (
        ("weights", shape.weight_bytes - kept),
        ("kv", needs["kv"]),
        ("compute", needs["compute"] * n),
        ("output", needs["output"]),
        ("CUDA", CUDA_VLLM.gpu_bytes * n),
    )
    host = (
        ("weights", kept),
        *((name, needs[name]) for name in ("requests", "process", "libraries")),
        ("CUDA", CUDA_VLLM.host_bytes),
    )
    return Placed(
        gpu=_told(gpu),
        host=_told(host),
        gpu_kv_text=setup.kv_text(shape),
        mapped_bytes=setup.calibration.library_bytes,
    )


def _told(terms: Terms) -> Terms:
    return tuple((name, size) for name, size in terms if size)
