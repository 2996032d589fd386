"""Memory of GPUs: whose it is, what goes there, and which pool of memory limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgesweep_agent import memory
from edgesweep_agent.core import gpu_memory as g
from edgesweep_agent.core import placement as p
from edgesweep_agent.core import verdict as v
from edgesweep_agent.core.gguf import GgufHeader, Tensor
from edgesweep_agent.core.model_shape import Layer, ModelShape
from random_gguf import Recipe, write

MIB, GIB = 2**20, 2**30
SHAPE = ModelShape("llama", (Layer(192, 192),) * 4, 576, 3 * 1536, 1536, 49152, 8192, 170 * MIB)
WEIGHTS = p.LayerWeights(30 * MIB, 40 * MIB, (25 * MIB, 26 * MIB, 24 * MIB, 25 * MIB))


def gpus(*free_gib):
    return tuple(
        g.Gpu(n, f"GPU-{n}", 12 * GIB, None if gib is None else gib * GIB)
        for n, gib in enumerate(free_gib)
    )


@pytest.mark.parametrize(
    ("free", "use", "available", "limited_by"),
    [
        ((6,), g.GpuUse((0,)), 6, "gpu0 free"),
        ((6, 9), g.GpuUse((1,)), 9, "gpu1 free"),
        ((6, 9), g.GpuUse((0, 1)), 15, "gpu0 + gpu1 free"),
        ((6, 9), g.GpuUse((0, 1), (0.5, 0.5)), 12, "gpu0 free, which takes 50%"),
        ((6, 3), g.GpuUse((0, 1), (0.75, 0.25)), 8, "gpu0 free, which takes 75%"),
        ((6, 9), g.GpuUse((1,), (1.0,)), 9, "gpu1 free"),
        ((0,), g.GpuUse((0,)), 0, "gpu0 free"),
        ((6, None), g.GpuUse((0, 1)), None, "NVML does not tell what gpu1 has free"),
        ((6, None), g.GpuUse((0,)), 6, "gpu0 free"),
        ((6,), g.GpuUse((0, 2)), None, "NVML does not tell what gpu2 has free"),
    ],
)
def test_the_pool_is_what_the_gpus_in_use_have_free_together(free, use, available, limited_by):
    found = g.pool(gpus(*free), use)
    known = None if available is None else available * GIB
    assert (found.available_bytes, found.limited_by) == (known, limited_by)
    assert found.total_bytes == (None if available is None else 12 * GIB * len(use.indices))


@pytest.mark.parametrize(
    ("hardware_class", "gib"),
    [
        ("x86.6-151.intel-i7-12700e.advantech-mic-770v3w.32g.rtx-a2000-12g.20c", [12]),
        ("x86.6-151.i7.box.32g.2xrtx-a2000-6g.20c/cpu@4900", [6, 6]),
        ("x86.25-33.ryzen.box.64g.rtx-3090-24g.t1000-8g.16c", [24, 8]),
        ("jetson.tegra234.p3767-0005.8g/cpu6@1497.6,gpu@612", []),
        ("x86.6-190.n97.box-16g.16g.igpu-8086:46d1.4c", []),
        ("8g", []),
    ],
)
def test_a_class_names_its_cards(hardware_class, gib):
    found = g.of_class(hardware_class)
    assert [gpu.total_bytes for gpu in found] == [size * GIB for size in gib]
    assert [gpu.index for gpu in found] == list(range(len(gib)))
    assert all(0.9 * gpu.total_bytes < gpu.free_bytes < gpu.total_bytes for gpu in found)


def test_the_guard_looks_at_the_gpu_that_is_full_first():
    both = g.GpuUse((0, 1))
    found = g.tightest(gpus(6, 2, 1), both)
    assert (found.available_bytes, found.limited_by) == (2 * GIB, "gpu1 free")
    assert g.tightest(gpus(6, None), both).available_bytes is None
    assert (g.free_bytes(gpus(6, 2, 1), both), g.free_bytes(gpus(6, None), both)) == (8 * GIB, None)


def test_the_text_of_a_reading_leaves_out_what_is_not_told():
    assert g.text(gpus(11, None, 2)) == (
        "gpu0 1.00 GiB used, 11.0 GiB free; gpu2 10.0 GiB used, 2.00 GiB free"
    )


def header(**sizes):
    """``output_norm_weight=4`` is a tensor of that name, with dots."""
    tensors = (
        Tensor(name.replace("__", "."), (1,), "F16", size, 0) for name, size in sizes.items()
    )
    return GgufHeader(3, {}, tuple(tensors), 0)


@pytest.mark.parametrize(
    ("output", "found"),
    [
        # The embedding is loaded a second time where it is the output too.
        ({}, p.LayerWeights(100, 7 + 100, (11, 23))),
        ({"output__weight": 80}, p.LayerWeights(100, 7 + 80, (11, 23))),
    ],
)
def test_a_files_weights_are_divided_as_llamacpp_can_place_them(output, found):
    first = header(token_embd__weight=100, blk__0__attn_q__weight=5, blk__0__ffn__weight=6)
    second = header(blk__1__attn_q__weight=23, output_norm__weight=7, **output)
    assert p.layer_weights([first, second]) == found


@pytest.mark.parametrize(
    ("layers", "there", "here"),
    [
        (None, 40 + 100, 30),
        (99, 40 + 100, 30),
        (5, 40 + 100, 30),
        (4, 40 + 26 + 24 + 25, 30 + 25),
        (2, 40 + 25, 30 + 25 + 26 + 24),
        (1, 40, 30 + 100),
        (0, 0, 30 + 100),
    ],
)
def test_the_output_goes_to_the_gpu_first_and_then_the_last_layers(layers, there, here):
    assert WEIGHTS.gpu_bytes(layers) == there * MIB
    assert WEIGHTS.host_bytes(layers) == here * MIB


MOE = (
    header(token_embd__weight=100, output__weight=80, blk__0__attn_q__weight=5,
           blk__0__ffn_up_exps__weight=60, blk__1__attn_q__weight=5,
           blk__1__ffn_up_exps__weight=70),
)  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "layers", "here", "copied"),
    [
        ((), None, 100, (0, 0)),
        (("exps",), None, 100 + 60 + 70, (60, 70)),
        ((r"blk\.0\..*exps",), None, 100 + 60, (60, 0)),
        (("exps",), 2, 100 + 65 + 70, (65, 70)),
        (("exps",), 1, 100 + 65 + 75, (65, 75)),
        (("^output",), None, 180, (0, 0)),
        (("(",), None, 100, (0, 0)),
    ],
)
def test_experts_that_the_plan_keeps_are_memory_of_the_host(kept, layers, here, copied):
    found = p.layer_weights(MOE, kept)
    assert found.host_bytes(layers) == here
    assert found.gpu_bytes(layers) == 100 + 80 + 65 + 75 - here
    assert found.copied_bytes(layers) == copied
    terms = dict(p.placed(v.LlamaCpp(1, 512), SHAPE, g.GpuUse((0,), layers=layers), found).gpu)
    assert terms.get("copied layer", 0) == max(copied)


def test_a_model_as_a_whole_on_a_gpu_leaves_the_embedding_to_the_host():
    setup = v.LlamaCpp(4, 4096)
    found = p.placed(setup, SHAPE, g.GpuUse((0,)), WEIGHTS)
    needs = dict(setup.needs(SHAPE))
    assert dict(found.gpu) == {
        "weights": 140 * MIB,
        "kv": needs["kv"],
        "compute": needs["compute"],
        "CUDA": p.CUDA_LLAMACPP.gpu_bytes,
    }
    assert dict(found.host) == {
        "weights": 30 * MIB,
        **{name: needs[name] for name in ("output", "requests", "process", "libraries")},
        "CUDA": p.CUDA_LLAMACPP.host_bytes,
    }
    assert found.mapped_bytes == 30 * MIB + needs["libraries"]
    assert found.gpu_kv_text == setup.kv_text(SHAPE)


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_layers_take_their_kv_to_where_they_are(layers):
    setup = v.LlamaCpp(4, 4096)
    found = p.placed(setup, SHAPE, g.GpuUse((0,), layers=layers), WEIGHTS)
    gpu, host = dict(found.gpu), dict(found.host)
    kv = setup.kv_bytes(SHAPE)
    assert gpu.get("kv", 0) == kv * (layers - 1) // 4
    assert gpu.get("kv", 0) + host["kv"] == kv
    assert gpu["weights"] + host["weights"] == 170 * MIB
    assert gpu["compute"] == host["compute"] == dict(setup.needs(SHAPE))["compute"]
    assert gpu["copied layer"] == max(WEIGHTS.layer_bytes[: 5 - layers])
    per_token = kv // (4 * 4096) * (5 - layers) // 4
    assert found.host_kv_text == f"KV 4 x 4,096 x {per_token:,} B"


def test_kv_that_is_kept_from_the_gpu_is_memory_of_the_host():
    setup = v.LlamaCpp(4, 4096)
    found = p.placed(setup, SHAPE, g.GpuUse((0,), kv=False), WEIGHTS)
    assert "kv" not in dict(found.gpu)
    assert dict(found.host)["kv"] == setup.kv_bytes(SHAPE)


def test_several_gpus_have_a_buffer_and_a_context_each():
    setup = v.LlamaCpp(4, 4096)
    one, two = (p.placed(setup, SHAPE, g.GpuUse(use), WEIGHTS) for use in ((0,), (0, 1)))
    more = {name: size - dict(one.gpu)[name] for name, size in two.gpu}
    assert {name: size for name, size in more.items() if size} == {
        "compute": dict(one.gpu)["compute"],
        "CUDA": p.CUDA_LLAMACPP.gpu_bytes,
    }
    assert one.host == two.host
    assert g.GpuUse((0, 1)).reserve_bytes == 2 * g.RESERVE_BYTES


def test_vllm_has_its_model_its_pool_and_its_logits_on_the_gpu():
    setup = v.Vllm(2, 512)
    needs = dict(setup.needs(SHAPE))
    found = p.placed(setup, SHAPE, g.GpuUse((0,), offload_bytes=50 * MIB))
    gpu = {name: needs[name] for name in ("kv", "compute", "output")}
    assert dict(found.gpu) == {
        "weights": 120 * MIB,
        **gpu,
        "CUDA": p.CUDA_VLLM.gpu_bytes,
    }
    assert dict(found.host)["weights"] == 50 * MIB
    assert dict(found.host)["process"] == needs["process"]
    assert not {"kv", "compute", "output"} & dict(found.host).keys()
    assert found.mapped_bytes == needs["libraries"]


def test_the_pool_with_the_least_to_spare_is_told():
    wide = v.weigh((("a", 100),), v.Room(1000, 0, "MemAvailable"))
    tight = v.weigh((("b", 50),), v.Room(90, 20, "gpu0 free"))
    short = v.weigh((("c", 95),), v.Room(120, 60, "MemAvailable"))
    assert v.tighter(wide, tight) == tight
    assert v.tighter(wide, tight).admit
    assert v.tighter(short, tight, wide) == short
    assert not v.tighter(short, tight, wide).admit
    text = v.tighter(wide, replace(tight, admit=False)).text
    assert "(gpu0 free)" in text


def test_the_weights_of_a_real_file_are_all_accounted_for(tmp_path):
    model = write(tmp_path / "model.gguf", Recipe(layers=3))
    found, shape = memory.layer_weights(model), memory.model(model)
    (file,) = memory.read_gguf(model)
    embedding = next(one.n_bytes for one in file.tensors if one.name == "token_embd.weight")
    tied = embedding * all(one.name != "output.weight" for one in file.tensors)
    assert len(found.layer_bytes) == len(shape.layers) == 3
    assert found.input_bytes == embedding
    total = found.input_bytes + found.output_bytes + sum(found.layer_bytes)
    assert total == shape.weight_bytes + tied
    assert memory.layer_weights(tmp_path) is None
