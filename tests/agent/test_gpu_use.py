"""Which GPUs a plan's contender uses, and what it keeps off them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgesweep_agent.core.gpu_memory import Gpu, GpuUse
from edgesweep_agent.plan import ManagedSpec
from edgesweep_agent.sweep.gpu_use import gpu_use, kept_on_host

GIB = 2**30
TWO = (Gpu(0, "GPU-aaaa-1"), Gpu(1, "GPU-bbbb-2"))
ALL = GpuUse((0, 1))


def used(gpus=TWO, inherited=None, **spec):
    one = ManagedSpec(Path("model.gguf"), 1, 512, **spec)
    return gpu_use(one, gpus, inherited or {})


@pytest.mark.parametrize(
    ("spec", "use"),
    [
        ({}, ALL),
        ({"gpu_layers": 20}, GpuUse((0, 1), layers=20)),
        ({"gpu_layers": 0}, None),
        ({"gpu_layers": 20, "flags": {"-ngl": "7"}}, GpuUse((0, 1), layers=7)),
        ({"flags": {"n_gpu_layers": "0"}}, None),
        ({"flags": {"--n-gpu-layers": "all"}}, ALL),
        ({"flags": {"--n-gpu-layers": "-1"}}, ALL),
        ({"flags": {"--no-kv-offload": ""}}, GpuUse((0, 1), kv=False)),
        ({"flags": {"no_kv_offload": "true"}}, GpuUse((0, 1), kv=False)),
        ({"flags": {"no_kv_offload": "false"}}, ALL),
        ({"flags": {"--device": "CUDA1"}}, GpuUse((1,))),
        ({"flags": {"--device": "none"}}, None),
        ({"flags": {"--split-mode": "none"}}, GpuUse((0,))),
        ({"flags": {"-sm": "none", "-mg": "1"}}, GpuUse((1,))),
        ({"flags": {"--tensor-split": "3,1"}}, GpuUse((0, 1), (0.75, 0.25))),
        ({"flags": {"--tensor-split": "0,1"}}, GpuUse((1,), (1.0,))),
        ({"flags": {"--tensor-split": "0,0"}}, ALL),
        ({"flags": {"--tensor-split": "half"}}, ALL),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "1"}}, GpuUse((1,))),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "1,0"}, "flags": {"-dev": "CUDA0"}},
         GpuUse((1,))),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}}, GpuUse((1,))),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "0,-1,1"}}, GpuUse((0,))),
        ({"environment": {"CUDA_VISIBLE_DEVICES": ""}}, None),
        ({"inherited": {"CUDA_VISIBLE_DEVICES": "1"}}, GpuUse((1,))),
        ({"inherited": {"CUDA_VISIBLE_DEVICES": "1"},
          "environment": {"CUDA_VISIBLE_DEVICES": "0"}}, GpuUse((0,))),
        # A container gets what it is given, and does not inherit.
        ({"inherited": {"CUDA_VISIBLE_DEVICES": "1"}, "launcher": "container", "image": "i"}, ALL),
        ({"launcher": "container", "image": "i", "flags": {"--gpus": "all"}}, ALL),
        ({"launcher": "container", "image": "i", "flags": {"--gpus": '"device=1"'}}, GpuUse((1,))),
        ({"launcher": "container", "image": "i", "flags": {"--gpus": "device=GPU-aaaa-1"}},
         GpuUse((0,))),
    ],
)  # fmt: skip
def test_llamacpp_divides_itself_over_all_that_it_may_see(spec, use):
    assert used(**spec) == use


@pytest.mark.parametrize(
    ("flags", "kept", "goes"),
    [
        ({}, (), ("blk.0.ffn_up_exps.weight",)),
        ({"--cpu-moe": ""}, ("blk.0.ffn_up_exps.weight", "blk.9.ffn_down_chexps.weight"),
         ("blk.0.ffn_up.weight", "blk.0.attn_q.weight")),
        ({"--n-cpu-moe": "2"}, ("blk.0.ffn_up_exps.weight", "blk.1.ffn_gate_exps.weight"),
         ("blk.2.ffn_up_exps.weight", "blk.10.ffn_up_exps.weight")),
        ({"-ot": "exps=CPU,attn=CUDA1"}, ("blk.0.ffn_up_exps.weight",), ("blk.0.attn_q.weight",)),
    ],
)  # fmt: skip
def test_tensors_that_a_plan_keeps_off_the_gpu_are_known_by_name(flags, kept, goes):
    spec = ManagedSpec(Path("model.gguf"), 1, 512, flags=flags)
    stays = [re.compile(pattern) for pattern in kept_on_host(spec)]
    found = {name: any(one.search(name) for one in stays) for name in (*kept, *goes)}
    assert found == dict.fromkeys(kept, True) | dict.fromkeys(goes, False)


@pytest.mark.parametrize(
    ("flags", "use"),
    [
        ({}, GpuUse((0,), (1.0,))),
        ({"--tensor-parallel-size": "2"}, GpuUse((0, 1), (0.5, 0.5))),
        ({"-pp": "2"}, GpuUse((0, 1), (0.5, 0.5))),
        ({"--cpu-offload-gb": "1.5"}, GpuUse((0,), (1.0,), offload_bytes=3 * GIB // 2)),
        ({"-tp": "2", "--cpu-offload-gb": "1"}, GpuUse((0, 1), (0.5, 0.5), offload_bytes=2 * GIB)),
        ({"-tp": "many"}, GpuUse((0,), (1.0,))),
    ],
)
def test_vllm_takes_the_first_unless_it_is_told_to_take_more(flags, use):
    assert used(engine="vllm", server="vllm", flags=flags) == use


def test_without_a_gpu_of_its_own_memory_there_is_one_pool():
    assert used(gpus=()) is None
    assert used(gpus=(), engine="vllm", server="vllm") is None
