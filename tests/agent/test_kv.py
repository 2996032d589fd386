from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgesweep_agent import memory
from edgesweep_agent.core import kv
from edgesweep_agent.core.gguf import GgufHeader, Skipped, Tensor
from edgesweep_agent.core.model_shape import Layer, ModelShape, ShapeError, from_gguf
from random_gguf import ARCHITECTURES, Recipe, write

MIB = 2**20


def shape_of(layers):
    return ModelShape("test", tuple(layers), 64, 128, 128, 1000, 4096, 0)


def header(arch="llama", **keys):
    basic = {"block_count": 4, "embedding_length": 64, "attention.head_count": 4}
    metadata = {f"{arch}.{key}": value for key, value in (basic | keys).items()}
    return GgufHeader(3, {"general.architecture": arch} | metadata, (), 0)


def layers_of(arch="llama", **keys):
    return from_gguf([header(arch, **keys)]).layers


@pytest.mark.parametrize(
    ("layers", "heads", "length", "f16", "q8_0", "four_2048_mib", "sixteen_2048_mib"),
    [
        (24, 2, 64, 12_288, 6_528, 96, 384),
        (28, 2, 128, 28_672, 15_232, 224, 896),
        (16, 8, 64, 32_768, 17_408, 256, 1024),
        (36, 2, 128, 36_864, 19_584, 288, 1152),
        (28, 4, 128, 57_344, 30_464, 448, 1792),
        (32, 8, 128, 131_072, 69_632, 1024, 4096),
    ],
)
def test_published_shapes_take_what_their_tables_say(
    layers, heads, length, f16, q8_0, four_2048_mib, sixteen_2048_mib
):
    shape = shape_of([Layer(heads * length, heads * length)] * layers)
    assert kv.kv_bytes_per_token(shape) == f16
    assert kv.kv_bytes_per_token(shape, "q8_0", "q8_0") == q8_0
    for slots, mib in ((4, four_2048_mib), (16, sixteen_2048_mib)):
        assert kv.kv_bytes(shape, slots=slots, context_per_request=2048) == mib * MIB


ONE = shape_of([Layer(32, 32)])
WINDOWED = shape_of([Layer(32, 32, window=100)])


@pytest.mark.parametrize(
    ("shape", "options", "cells"),
    [
        (ONE, {"slots": 3, "context_per_request": 1000}, 3 * 1024),
        (ONE, {"slots": 3, "context_per_request": 1000, "unified": True}, 3072),
        (ONE, {"slots": 3, "context_per_request": 300, "unified": True}, 1024),
        (WINDOWED, {"slots": 2, "context_per_request": 4096}, 2 * 768),
        (WINDOWED, {"slots": 2, "context_per_request": 4096, "n_ubatch": 64}, 2 * 256),
        (WINDOWED, {"slots": 2, "context_per_request": 512}, 2 * 512),
        (WINDOWED, {"slots": 2, "context_per_request": 4096, "unified": True}, 768),
        (WINDOWED, {"slots": 2, "context_per_request": 4096, "swa_full": True}, 2 * 4096),
    ],
)
def test_cells_are_padded_a_stream_and_bounded_by_the_window(shape, options, cells):
    assert kv.kv_bytes(shape, **options) == cells * 2 * 32 * 2


@pytest.mark.parametrize(("kind", "n_bytes"), kv.BYTES_OF_32.items())
def test_each_kv_type_has_its_block(kind, n_bytes):
    assert kv.kv_bytes_per_token(ONE, kind, "f16") == n_bytes + 64


@pytest.mark.parametrize(
    ("kind", "width", "said"), [("q9", 32, "q9"), ("q8_0", 80, "rows of 80"), ("q4_0", 8, "of 8")]
)
def test_a_kv_type_that_cannot_be_is_refused(kind, width, said):
    with pytest.raises(ShapeError, match=said):
        kv.kv_bytes_per_token(shape_of([Layer(width, width)]), kind, "f16")


def test_a_state_costs_a_slot_and_no_token():
    shape = shape_of([Layer(state=1000)])
    assert kv.kv_bytes(shape, slots=3, context_per_request=9999) == 3 * 4000
    assert kv.kv_bytes_per_token(shape) == 0


KV16, KV32 = Layer(16, 16), Layer(32, 32)


@pytest.mark.parametrize(
    ("arch", "keys", "expected"),
    [
        ("llama", {}, [Layer(64, 64)] * 4),
        ("llama", {"attention.head_count_kv": 2}, [KV32] * 4),
        ("llama", {"attention.head_count_kv": 1, "attention.key_length": 128},
         [Layer(128, 16)] * 4),
        ("openelm", {"attention.head_count_kv": (1, 1, 2, 2), "attention.head_count": (4, 4, 4, 4)},
         [KV16, KV16, KV32, KV32]),
        ("deepseek2", {"attention.head_count_kv": 1, "attention.kv_lora_rank": 512,
                       "attention.key_length": 576, "attention.value_length": 512,
                       "attention.key_length_mla": 192}, [Layer(576, 0)] * 4),
        ("deepseek2", {"attention.key_length": 192, "attention.value_length": 128,
                       "attention.kv_lora_rank": 512}, [Layer(768, 512)] * 4),
        ("llama", {"nextn_predict_layers": 1}, [Layer(64, 64)] * 3),
        ("gemma4", {"attention.shared_kv_layers": 2}, [Layer(64, 64)] * 2 + [Layer()] * 2),
        ("lfm2", {"attention.head_count_kv": (0, 1, 0, 1), "shortconv.l_cache": 3},
         [Layer(state=128), KV16] * 2),
        ("mamba", {"ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 16},
         [Layer(state=3 * 128 + 16 * 128)] * 4),
        ("qwen35", {"ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 16,
                    "ssm.group_count": 2, "attention.head_count_kv": 1},
         [Layer(state=3 * 192 + 2048)] * 3 + [KV16]),
        ("falcon-h1", {"ssm.conv_kernel": 2, "ssm.inner_size": 10, "ssm.state_size": 3,
                       "attention.head_count_kv": 1}, [Layer(16, 16, state=40)] * 4),
        ("rwkv7", {"wkv.head_size": 8, "attention.head_count": 0},
         [Layer(state=2 * 64 + 64 * 8)] * 4),
        ("kimi-linear", {"ssm.conv_kernel": 4, "kda.head_dim": 8,
                         "attention.head_count_kv": (0, 0, 0, 1)},
         [Layer(state=3 * 3 * 4 * 8 + 4 * 64)] * 3 + [KV16]),
    ],
)  # fmt: skip
def test_layers_of_each_kind_keep_what_llama_cpp_keeps(arch, keys, expected):
    keys.setdefault("vocab_size", 9)
    if arch == "gemma4":
        keys["attention.sliding_window_pattern"] = (False,) * 4
    assert list(layers_of(arch, **keys)) == expected


@pytest.mark.parametrize(
    ("arch", "keys", "windows"),
    [
        ("gemma2", {}, [4096, 0, 4096, 0]),
        ("gemma3", {"attention.sliding_window": 512, "block_count": 6}, [512] * 5 + [0]),
        ("gpt-oss", {"attention.sliding_window": 128}, [128, 0, 128, 0]),
        ("llama4", {}, [8192, 8192, 8192, 0]),
        ("cohere2moe", {"attention.sliding_window": 9}, [0, 9, 9, 9]),
        ("gemma3", {"attention.sliding_window": 9, "attention.sliding_window_pattern": 2},
         [9, 0, 9, 0]),
        ("mimo2", {"attention.sliding_window": 9,
                   "attention.sliding_window_pattern": (True, False, False, True)}, [9, 0, 0, 9]),
        ("phi3", {"attention.sliding_window": 2047}, [0] * 4),
        ("gemma3n", {"attention.sliding_window": 9, "block_count": 25}, [9, 9, 9, 9, 0] * 4),
    ],
)  # fmt: skip
def test_windows_follow_the_pattern_key_or_the_period_of_the_architecture(arch, keys, windows):
    found = [layer.window for layer in layers_of(arch, **keys) if layer.k_width]
    assert found == windows


def test_heads_of_windowed_layers_may_have_a_length_of_their_own():
    keys = {"attention.sliding_window": 9, "attention.key_length": 32, "attention.value_length": 32}
    full, narrow = layers_of(
        "gemma4",
        **keys,
        **{
            "block_count": 2,
            "attention.head_count_kv": (1, 2),
            "attention.key_length_swa": 16,
            "attention.value_length_swa": 16,
            "attention.sliding_window_pattern": (False, True),
        },
    )
    assert (full, narrow) == (Layer(32, 32), Layer(32, 32, window=9))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"block_count": 0}, "block_count"),
        ({"block_count": 10**9}, "block_count is 1000000000"),
        ({"block_count": "4"}, "block_count is '4'"),
        ({"embedding_length": Skipped(9)}, "embedding_length"),
        ({"attention.head_count_kv": (1, 2)}, "2 values for 4 layers"),
        ({"attention.head_count_kv": (1, 2, -3, 4)}, "-3"),
        ({"nextn_predict_layers": 4}, "no layers"),
    ],
)
def test_metadata_that_cannot_be_right_are_refused_with_the_key(keys, said):
    with pytest.raises(ShapeError, match=said):
        layers_of(**keys)


def test_a_file_without_an_architecture_is_no_model():
    with pytest.raises(ShapeError, match=r"general\.architecture"):
        from_gguf([GgufHeader(3, {}, (), 0)])


def test_the_vocabulary_is_counted_in_the_embedding_tensor():
    embedding = Tensor("token_embd.weight", (64, 777), "F16", 99456, 0)
    metadata = dict(header(vocab_size=5).metadata)
    assert from_gguf([GgufHeader(3, metadata, (embedding,), 0)]).n_vocab == 777


GEMMA = [Layer(1024, 1024, window=0 if n % 6 == 5 else 1024) for n in range(34)]


@pytest.mark.parametrize(
    ("layers", "options", "expected"),
    [
        ([KV32] * 4, {"context": 100}, 7 * 16 * 4 * 64 * 2),
        ([KV32] * 4, {"context": 100, "block_size": 128}, 128 * 4 * 64 * 2),
        ([KV32] * 4, {"context": 100, "dtype_bytes": 1}, 7 * 16 * 4 * 64),
        ([Layer(576, 0)] * 27, {"context": 4096}, 4096 * 27 * 576 * 2),
        ([Layer(1, 1, window=33)] * 2, {"context": 4096, "batched_tokens": 32},
         (4 + 1) * 16 * 2 * 2 * 2),
        (GEMMA, {"context": 8192}, (512 * 5 + 193 * 30) * 16 * 2048 * 2),
        ([Layer(state=100)] * 3, {"context": 4096}, 600),
    ],
)  # fmt: skip
def test_a_request_takes_the_blocks_that_vllm_would_give_it(layers, options, expected):
    assert kv.vllm_request_bytes(shape_of(layers), **options) == expected


def test_the_pool_in_tokens_is_that_of_vllms_log():
    shape = shape_of([Layer(256, 256)] * 28)
    assert kv.kv_cache_size_tokens(shape, 2**30, context=4096) == 2**30 // (28 * 512 * 2)
    assert kv.kv_cache_size_tokens(shape_of([Layer()]), 2**30, context=4096) == 0


_LOG_SIZES = """
import json, os, sys, time, xllamacpp
servers = []
for case in json.loads(sys.argv[1]):
    parameters = xllamacpp.CommonParams()
    parameters.model.path = case["path"]
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.n_parallel, parameters.n_ctx = case["slots"], case["slots"] * case["context"]
    parameters.kv_unified, parameters.n_ubatch = case["unified"], case["n_ubatch"]
    parameters.cache_type_k = parameters.cache_type_v = getattr(
        xllamacpp.ggml_type, "GGML_TYPE_" + case["kind"].upper())
    parameters.fit_params = parameters.ui = parameters.warmup = False
    parameters.offline, parameters.verbosity = True, 4
    servers.append(xllamacpp.Server(parameters))
time.sleep(0.3)  # the log is written by a thread
os._exit(0)  # stopping a server that has just started may hang
"""


def test_llama_cpp_reserves_what_is_predicted(tmp_path):
    pytest.importorskip("xllamacpp")
    cases = []
    for arch in ARCHITECTURES:
        path = write(tmp_path / f"{arch}.gguf", Recipe(arch=arch, layers=8, vocab=256))
        kind = "f16" if arch == "deepseek2" else "q8_0"
        cases += [
            {"path": str(path), "slots": 3, "context": 1000, "unified": False, "n_ubatch": 128,
             "kind": "f16"},
            {"path": str(path), "slots": 2, "context": 2048, "unified": True, "n_ubatch": 256,
             "kind": kind},
        ]  # fmt: skip
    command = [sys.executable, "-c", _LOG_SIZES, json.dumps(cases)]
    log = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr
    parts = log.split("load_model: loading model ")[1:]
    assert len(parts) == len(cases)
    for case, part in zip(cases, parts, strict=True):
        told = sum(map(float, re.findall(r"(?:KV|RS) buffer size = +([\d.]+) MiB", part)))
        predicted = kv.kv_bytes(
            memory.model(Path(case["path"])),
            slots=case["slots"],
            context_per_request=case["context"],
            k_type=case["kind"],
            v_type=case["kind"],
            unified=case["unified"],
            n_ubatch=case["n_ubatch"],
        )
        # The log has two decimals a line.
        assert predicted / MIB == pytest.approx(told, rel=0.01, abs=0.011), case
