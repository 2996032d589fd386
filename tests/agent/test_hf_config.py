from __future__ import annotations

import json

import pytest

from edgesweep_agent import memory
from edgesweep_agent.core import kv
from edgesweep_agent.core.hf_config import from_config
from edgesweep_agent.core.model_shape import Layer, ShapeError
from edgesweep_agent.errors import UsageError

# The memory-relevant keys of the published files.
QWEN = {
    "model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 1536,
    "num_attention_heads": 12, "num_key_value_heads": 2, "intermediate_size": 8960,
    "vocab_size": 151936, "max_position_embeddings": 32768, "sliding_window": 32768,
    "use_sliding_window": False,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v2", "num_hidden_layers": 27, "hidden_size": 2048,
    "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 10944,
    "moe_intermediate_size": 1408, "num_experts_per_tok": 6, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "q_lora_rank": None, "vocab_size": 102400,
}  # fmt: skip
GEMMA = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560,
        "intermediate_size": 10240, "sliding_window": 1024,
    },
}  # fmt: skip
MISTRAL = {**LLAMA, "model_type": "mistral", "sliding_window": 4096}


def windows(shape):
    return [layer.window for layer in shape.layers]


@pytest.mark.parametrize(
    ("config", "bytes_per_token"),
    [(QWEN, 28_672), (LLAMA, 131_072), (DEEPSEEK, 31_104), (GEMMA, 34 * 2 * 1024 * 2)],
)
def test_published_configs_cost_what_is_known_of_them(config, bytes_per_token):
    assert kv.kv_bytes_per_token(from_config(config, 1)) == bytes_per_token


def test_what_a_config_leaves_to_its_class_is_known():
    shape = from_config(GEMMA, 1)
    assert windows(shape)[:12] == [1024] * 5 + [0] + [1024] * 5 + [0]
    assert (shape.n_vocab, shape.arch) == (262208, "gemma3_text")


def test_a_window_that_is_switched_off_is_none():
    assert set(windows(from_config(QWEN, 1))) == {0}
    on = {**QWEN, "use_sliding_window": True}
    assert set(windows(from_config(on, 1))) == {32768}


def test_llama_cpp_keeps_all_tokens_of_models_whose_every_layer_slides():
    assert set(windows(from_config(MISTRAL, 1))) == {4096}
    assert set(windows(from_config(MISTRAL, 1, honours_windows=False))) == {0}
    assert set(windows(from_config(GEMMA, 1, honours_windows=False))) == {0, 1024}


SMALL = {
    "model_type": "x", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 1000,
}  # fmt: skip
FULL = Layer(64, 64)


@pytest.mark.parametrize(
    ("keys", "layers"),
    [
        ({}, [FULL] * 4),
        ({"head_dim": 32, "num_key_value_heads": 1}, [Layer(32, 32)] * 4),
        ({"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 9},
         [Layer(64, 64, window=9), FULL] * 2),
        ({"layer_types": ["chunked_attention", "full_attention"] * 2, "attention_chunk_size": 8},
         [Layer(64, 64, window=8), FULL] * 2),
        ({"num_kv_shared_layers": 3}, [FULL] + [Layer()] * 3),
        ({"layer_types": ["conv", "full_attention"] * 2, "conv_L_cache": 3},
         [Layer(state=128), FULL] * 2),
        ({"model_type": "qwen3_next", "linear_num_value_heads": 4, "linear_value_head_dim": 8,
          "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_conv_kernel_dim": 4},
         [Layer(state=3 * (32 + 64) + 32 * 16)] * 3 + [FULL]),
        ({"attn_layer_period": 4, "attn_layer_offset": 1, "mamba_d_state": 16, "mamba_d_conv": 4,
          "mamba_expand": 2}, [Layer(state=3 * 128 + 2048), FULL] + [Layer(state=2432)] * 2),
        ({"model_type": "mamba", "state_size": 16, "conv_kernel": 4, "intermediate_size": 128},
         [Layer(state=3 * 128 + 2048)] * 4),
    ],
)  # fmt: skip
def test_layers_of_each_kind(keys, layers):
    assert list(from_config({**SMALL, **keys}, 1).layers) == layers


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ([], "no JSON object"),
        ({}, "num_hidden_layers is None"),
        ({**SMALL, "num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({**SMALL, "vocab_size": "many"}, "vocab_size is 'many'"),
        ({**SMALL, "hidden_size": -1}, "hidden_size is -1"),
        ({**SMALL, "layer_types": ["full_attention"]}, "1 entries for 4 layers"),
        ({**SMALL, "layer_types": ["magic"] * 4}, "'magic'"),
        ({**SMALL, "kv_lora_rank": 8}, "qk_rope_head_dim"),
    ],
)
def test_a_config_that_cannot_be_used_is_refused_with_the_key(config, said):
    with pytest.raises(ShapeError, match=said):
        from_config(config, 1)


def test_a_folder_weighs_what_its_safetensors_weigh(tmp_path):
    with pytest.raises(UsageError, match=r"no config\.json"):
        memory.model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    with pytest.raises(UsageError, match="safetensors"):
        memory.model(tmp_path)
    for part in (1, 2):
        (tmp_path / f"model-0000{part}-of-00002.safetensors").write_bytes(bytes(1000 * part))
    assert memory.model(tmp_path).weight_bytes == 3000
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UsageError, match=str(tmp_path)):
        memory.model(tmp_path)
