"""GPUs with memory of their own: which of them an engine takes from, and what they have left."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgesweep.sizes import size_text

from .available import Available, smallest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RESERVE_BYTES = 128 * 2**20
"""What stays free on each GPU an engine uses: a display and the driver take more at times, and
CUDA's allocators fail some way before the last byte. Assumed. A plan's ``reserve`` is memory of
the host."""

_FREE = 0.95
"""Of a card's size as it is sold: 11,770 MiB of 12 GiB on an RTX A2000 that shows a screen."""
_CARDS = re.compile(r"\.(?:(\d+)x)?[a-z][a-z0-9-]*-(\d+)g(?=$|[./])")
_RAM = re.compile(r"\.\d+g(?=[./])")
_MOST_CARDS = 64


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU with memory of its own, as NVML tells it now; ``None`` is not told."""

    index: int
    uuid: str = ""
    total_bytes: int | None = None
    free_bytes: int | None = None

    @property
    def name(self) -> str:
        """What a limit by this GPU is called."""
        return f"gpu{self.index} free"


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Which GPUs an engine takes memory of, and what it puts there.

    Attributes:
        indices: NVML's.
        shares: What each of them takes, together 1; empty where an engine divides by free memory,
            as llama.cpp does unless it is told otherwise.
        layers: llama.cpp's ``--n-gpu-layers``: the last of the model's, its output counted as
            one; ``None`` for all.
        kv: Whether the KV cache of a layer lies where the layer does.
        offload_bytes: Weights that stay in host memory for all that (vLLM's ``--cpu-offload-gb``).
    """

    indices: tuple[int, ...]
    shares: tuple[float, ...] = ()
    layers: int | None = None
    kv: bool = True
    offload_bytes: int = 0

    @property
    def reserve_bytes(self) -> int:
        """What stays free on all of them together."""
        return RESERVE_BYTES * len(self.indices)


def of_sizes(*nominal_bytes: int) -> tuple[Gpu, ...]:
    """Cards of another box, by the sizes that they are sold with."""
    return tuple(
        Gpu(at, total_bytes=size, free_bytes=int(size * _FREE))
        for at, size in enumerate(nominal_bytes)
    )


def of_class(hardware_class: str) -> tuple[Gpu, ...]:
    """The cards that a class names, as in ``.32g.2xrtx-a2000-12g.20c``; none where it has none."""
    _, _, after_ram = _RAM.sub("\n", f".{hardware_class.strip().lower()}", count=1).partition("\n")
    found = _CARDS.findall(after_ram)
    sizes = [
        int(gib) * 2**30 for count, gib in found for _ in range(min(int(count or 1), _MOST_CARDS))
    ]
    return of_sizes(*sizes)


def pool(gpus: Sequence[Gpu], use: GpuUse) -> Available:
    """What an engine could take of its GPUs together.

    Divided by shares, the GPU that is full first says how much that is. That a layer goes to one
    GPU as a whole is not counted.
    """
    chosen, missing = _chosen(gpus, use)
    if missing:
        return Available(None, None, missing, ())
    total, terms = _sum(gpu.total_bytes for gpu in chosen), _terms(chosen)
    free = [size for _, size in terms]
    if use.shares and len(chosen) > 1:
        shared = zip(chosen, free, use.shares, strict=True)
        room, name = min(
            (round(size / share), f"{gpu.name}, which takes {share:.0%}")
            for gpu, size, share in shared
        )
        return Available(total, room, name, terms)
    name = " + ".join(gpu.name.removesuffix(" free") for gpu in chosen) + " free"
    return Available(total, sum(free), name, terms)


def tightest(gpus: Sequence[Gpu], use: GpuUse) -> Available:
    """The least that any GPU in use has left: who runs out of one has no use for another's."""
    chosen, missing = _chosen(gpus, use)
    if missing:
        return Available(None, None, missing, ())
    return smallest(_sum(gpu.total_bytes for gpu in chosen), _terms(chosen), "unknown")


def free_bytes(gpus: Sequence[Gpu], use: GpuUse) -> int | None:
    """Free memory of the GPUs in use, together."""
    chosen, missing = _chosen(gpus, use)
    return None if missing else sum(size for _, size in _terms(chosen))


def text(gpus: Sequence[Gpu]) -> str:
    """Used and free memory of each GPU, for a record: ``gpu0 512 MiB used, 11.5 GiB free``."""
    return "; ".join(
        f"gpu{gpu.index} {size_text(gpu.total_bytes - gpu.free_bytes)} used, "
        f"{size_text(gpu.free_bytes)} free"
        for gpu in gpus
        if gpu.total_bytes is not None and gpu.free_bytes is not None
    )


def _chosen(gpus: Sequence[Gpu], use: GpuUse) -> tuple[list[Gpu], str]:
    """The GPUs in use; or what one of them does not tell."""
    by_index = {gpu.index: gpu for gpu in gpus}
    chosen = [by_index[index] for index in use.indices if index in by_index]
    silent = set(use.indices) - {gpu.index for gpu in chosen if gpu.free_bytes is not None}
    if silent:
        return [], f"NVML does not tell what gpu{min(silent)} has free"
    return chosen, ""


def _terms(gpus: Sequence[Gpu]) -> tuple[tuple[str, int], ...]:
    return tuple((gpu.name, gpu.free_bytes) for gpu in gpus if gpu.free_bytes is not None)


def _sum(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
