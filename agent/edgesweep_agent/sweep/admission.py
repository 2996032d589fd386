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
    Room,
    Vllm,
    bytes_per_request,
    client_bytes,
    judge,
    mapped_bytes,
    most_that,
    tighter,
    weigh,
)
from edgesweep_agent.plan import ManagedSpec

from .builds import box_of
from .on_gpus import on_gpus
from .trained import check_context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgesweep_agent.core.available import Available
    from edgesweep_agent.core.model_shape import ModelShape
    from edgesweep_agent.core.verdict import Verdict
    from edgesweep_agent.plan import ContenderSpec, SweepPlan

    from .box import Box
    from .on_gpus import OnGpus

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
        warning: What may keep it from starting, in words; "" if nothing is known to.
    """

    spec: ContenderSpec
    admitted: Mapping[int, MemoryVerdict] = field(default_factory=dict)
    refused: Mapping[int, MemoryVerdict] = field(default_factory=dict)
    per_request_bytes: float | None = None
    sized: str = ""
    warning: str = ""


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
        UsageError: the model cannot be read, or was trained for less context than is asked for.
    """
    if not isinstance(spec, ManagedSpec) or spec.as_shipped:
        return Admission(spec)
    shape = await anyio.to_thread.run_sync(
        lambda: memory.model(spec.model, honours_windows=spec.engine != "vllm")
    )
    warning = await anyio.to_thread.run_sync(check_context, spec, shape)
    box = await box_of(spec, box)
    on = await anyio.to_thread.run_sync(on_gpus, spec, box)
    scale = _scale(spec, plan, box, shape, on)
    judged = Admission(spec) if scale is None else _judged(spec, plan, levels, scale, slots_before)
    return replace(judged, warning=warning)


def _scale(
    spec: ManagedSpec, plan: SweepPlan, box: Box, shape: ModelShape, on: OnGpus | None
) -> _Scale | None:
    """``None`` where nobody can tell what there is."""
    mapped = in_cache(spec, shape.weight_bytes, box.gpu, on)
    host = _room(box.available(reused_bytes=mapped), plan.reserve_bytes, spec.replicas)
    if on is None:
        return None if host is None else _Scale(shape, spec, host)
    gpu = _room(on.room(), on.use.reserve_bytes, spec.replicas)
    return None if host is None or gpu is None else _Scale(shape, spec, host, on, gpu)


def _room(left: Available, reserve_bytes: int, replicas: int) -> Room | None:
    """One replica's part: they share what there is evenly."""
    if left.available_bytes is None:
        return None
    return Room(left.available_bytes // replicas, reserve_bytes // replicas, left.limited_by)


def _judged(
    spec: ManagedSpec,
    plan: SweepPlan,
    levels: Sequence[int],
    scale: _Scale,
    slots_before: int | None,
) -> Admission:
    if plan.policy == "per_level":
        verdicts = {level: scale.verdict(level) for level in levels}
        return Admission(
            spec,
            {level: v for level, v in verdicts.items() if v.admit},
            {level: v for level, v in verdicts.items() if not v.admit},
            scale.per_request_bytes(),
        )
    return _fixed(spec, levels, scale, slots_before)


def in_cache(spec: ManagedSpec, weights_bytes: int | None, gpu: str, on: OnGpus | None) -> int:
    """The same where a GPU of its own memory may hold a part, or the plan keeps it from all."""
    if on is not None:
        return needed_in_cache(spec, on.host_weight_bytes, "none")
    return needed_in_cache(spec, weights_bytes, "none" if gpu == "discrete" else gpu)


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
        host: Room,
        on: OnGpus | None = None,
        gpu: Room | None = None,
    ) -> None:
        self._shape, self._spec = shape, spec
        self._host, self._on, self._gpu = host, on, gpu

    def verdict(self, slots: int) -> MemoryVerdict:
        return _record(self._weighed(slots))

    def _weighed(self, slots: int) -> Verdict:
        """By the memory that has the least to spare, where there are two."""
        setup, client = self._setup(slots), (("load generator", self._client(slots)),)
        if self._on is None or self._gpu is None:
            return judge(
                self._shape,
                setup,
                available_bytes=self._host.available_bytes,
                reserve_bytes=self._host.reserve_bytes,
                limited_by=self._host.limited_by,
                beside=client,
            )
        needs = self._on.placed(setup, self._shape)
        return tighter(
            weigh(needs.gpu, self._gpu, kv_text=needs.gpu_kv_text),
            weigh(
                (*needs.host, *client),
                self._host,
                kv_text=needs.host_kv_text,
                mapped_bytes=needs.mapped_bytes,
            ),
        )

    def refusal(self, level: int, wanted: int) -> MemoryVerdict:
        """Why a level is left out: its own slots, or all that were asked for, do not fit."""
        own = self.verdict(min(math.ceil(level / self._spec.replicas), wanted))
        return self.verdict(wanted) if own.admit else own

    def largest(self) -> int:
        """The most slots whose whole context fits."""
        return most_that(lambda slots: self._weighed(slots).admit)

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
