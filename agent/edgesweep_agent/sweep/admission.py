"""Which levels may be tried on this box: what each needs, against what there is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec

from edgesweep.records import MemoryVerdict
from edgesweep_agent import memory
from edgesweep_agent.core.verdict import (
    LlamaCpp,
    Vllm,
    bytes_per_request,
    client_bytes,
    judge,
    largest_level,
    mapped_bytes,
)
from edgesweep_agent.plan import ManagedSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgesweep_agent.core.model_shape import ModelShape
    from edgesweep_agent.core.verdict import Verdict
    from edgesweep_agent.plan import ContenderSpec, SweepPlan

    from .box import Box

_BYTES_OF = {"fp8": 1, "int8": 1, "fp32": 4, "f32": 4, "float32": 4}
"""Of an element of vLLM's KV cache; 2 unless it is said otherwise."""
_VLLM_BLOCK_TOKENS = 128
"""The largest block, as on a CPU: pools are sized in blocks of it (``servers/vllm.py``)."""
_VLLM_BATCH_TOKENS = 2048
"""Of a scheduler's step, where the plan says nothing and the slots can hold so many (as above)."""
_COPYING = frozenset({("--no-mmap", ""), ("--load-mode", "none"), ("load_mode", "none")})
"""Flags that make llama.cpp read its weights into memory of its own."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What may be tried.

    Attributes:
        spec: The contender, sized for what fits.
        admitted, refused: Verdicts by level; a level that nobody could judge is in neither.
        per_request_bytes: Of each additional simultaneous request at its whole context.
        sized: How its slots are fewer than were asked for, in words; "" if they are not.
    """

    spec: ContenderSpec
    admitted: Mapping[int, MemoryVerdict] = field(default_factory=dict)
    refused: Mapping[int, MemoryVerdict] = field(default_factory=dict)
    per_request_bytes: float | None = None
    sized: str = ""


async def admit(
    spec: ContenderSpec,
    plan: SweepPlan,
    levels: Sequence[int],
    box: Box,
    *,
    slots_before: int | None = None,
) -> Admission:
    """Judge every level of a managed contender before anything is started.

    With the ``fixed`` policy the configuration is judged as a whole: where its slots do not fit,
    it gets as many as do, and the levels above them are refused.

    Args:
        spec: The contender.
        plan: What the sweep keeps to.
        levels: Those to judge.
        box: The device.
        slots_before: What this run gave the contender in an earlier session: it is the same
            configuration again, or none.

    Raises:
        UsageError: the model cannot be read.
    """
    if not isinstance(spec, ManagedSpec) or spec.as_shipped:
        return Admission(spec)
    shape = await anyio.to_thread.run_sync(
        lambda: memory.model(spec.model, honours_windows=spec.engine != "vllm")
    )
    room = box.available(reused_bytes=needed_in_cache(spec, shape.weight_bytes, box.gpu))
    if room.available_bytes is None:
        return Admission(spec)
    scale = _Scale(shape, spec, plan.reserve_bytes, room.available_bytes, room.limited_by)
    if plan.policy == "per_level":
        verdicts = {level: scale.verdict(level) for level in levels}
        return Admission(
            spec,
            {level: v for level, v in verdicts.items() if v.admit},
            {level: v for level, v in verdicts.items() if not v.admit},
            scale.per_request_bytes(),
        )
    return _fixed(spec, levels, scale, slots_before)


def needed_in_cache(spec: ManagedSpec, weights_bytes: int | None, gpu: str) -> int:
    """Weights and libraries that an engine maps: file cache that it cannot do without."""
    if spec.engine == "vllm":
        return mapped_bytes(Vllm(1, 1), 0)
    maps = gpu == "none" and not _COPYING & spec.flags.items()
    return mapped_bytes(LlamaCpp(1, 1, maps_weights=maps), weights_bytes or 0)


def _fixed(
    spec: ManagedSpec, levels: Sequence[int], scale: _Scale, slots_before: int | None
) -> Admission:
    wanted = spec.slots or max(levels)
    settled = min(wanted, slots_before or wanted)
    slots = min(settled, scale.largest())
    if slots_before and slots < settled:
        return Admission(spec, {}, dict.fromkeys(levels, scale.verdict(settled)))
    refused = {
        level: verdict
        for level in levels
        if slots < wanted
        and level > slots * spec.replicas
        and not (verdict := scale.refusal(level, wanted)).admit
    }
    if not slots:
        return Admission(spec, {}, refused, scale.per_request_bytes())
    got = scale.verdict(slots)
    admitted = {level: got for level in levels if level not in refused}
    resized = msgspec.structs.replace(spec, slots=slots)
    sized = f"{slots} of {wanted} slots: {scale.verdict(wanted).text}" if slots < wanted else ""
    return Admission(resized, admitted, refused, scale.per_request_bytes(), sized)


class _Scale:
    """Weighs a contender at so many slots against what the box has now."""

    def __init__(
        self,
        shape: ModelShape,
        spec: ManagedSpec,
        reserve_bytes: int,
        available_bytes: int,
        limited_by: str,
    ) -> None:
        self._shape, self._spec = shape, spec
        # Replicas share what there is evenly.
        self._reserve = reserve_bytes // spec.replicas
        self._available, self._limited_by = available_bytes // spec.replicas, limited_by

    def verdict(self, slots: int) -> MemoryVerdict:
        found = judge(
            self._shape,
            self._setup(slots),
            available_bytes=self._available,
            reserve_bytes=self._reserve,
            limited_by=self._limited_by,
            beside=(("load generator", self._client(slots)),),
        )
        return _record(found)

    def refusal(self, level: int, wanted: int) -> MemoryVerdict:
        """Why a level is left out: its own slots, or all that were asked for, do not fit."""
        own = self.verdict(min(math.ceil(level / self._spec.replicas), wanted))
        return self.verdict(wanted) if own.admit else own

    def largest(self) -> int:
        """The most slots whose whole context fits."""
        return largest_level(
            self._shape,
            self._setup(1),
            available_bytes=self._available,
            reserve_bytes=self._reserve,
            beside=self._client,
        )

    def per_request_bytes(self) -> float:
        """Of each additional one."""
        return bytes_per_request(self._shape, self._setup(1))

    def _client(self, slots: int) -> int:
        """The load generator's part for one replica."""
        return client_bytes(slots * self._spec.replicas) // self._spec.replicas

    def _setup(self, slots: int) -> LlamaCpp | Vllm:
        spec = self._spec
        context = spec.context_per_request or self._shape.context_length
        if spec.engine == "vllm":
            return Vllm(
                slots,
                context,
                block_size=_VLLM_BLOCK_TOKENS,
                kv_dtype_bytes=_BYTES_OF.get(spec.kv_dtype, 2),
                batched_tokens=spec.batch or min(_VLLM_BATCH_TOKENS, slots * context),
                pool_bytes=spec.kv_bytes,
            )
        kind = spec.kv_dtype or "f16"
        llama = LlamaCpp(slots, context, k_type=kind, v_type=kind)
        return llama if spec.ubatch is None else replace(llama, n_ubatch=spec.ubatch)


def _record(verdict: Verdict) -> MemoryVerdict:
    return MemoryVerdict(
        admit=verdict.admit,
        needed_bytes=verdict.needed_bytes,
        available_bytes=verdict.available_bytes,
        reserve_bytes=verdict.reserve_bytes,
        limited_by=verdict.limited_by,
        terms=tuple(
            (verdict.kv_text if name == "kv" and verdict.kv_text else name, size)
            for name, size in verdict.terms
        ),
    )
