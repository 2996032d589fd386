"""A Hugging Face ``config.json`` as the shape that memory depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .model_shape import MOST_LAYERS, Layer, ModelShape, ShapeError, mixer_width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TEXT_PARTS = ("text_config", "llm_config", "language_config")
"""Where a model of several modalities keeps that of its language model."""

_DEFAULTS: dict[str, dict[str, int]] = {
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
    },
    "gemma2": {"sliding_window": 4096, "sliding_window_pattern": 2},
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "gpt_oss": {"sliding_window": 128, "sliding_window_pattern": 2},
    "qwen3_next": {"full_attention_interval": 4},
}
"""What published files leave to the classes of ``transformers`` (configuration_*.py)."""

_FULL = frozenset({"full_attention", "attention", "*", "global"})
_SLIDING = frozenset({"sliding_attention", "chunked_attention", "local"})
_RECURRENT = frozenset({"linear_attention", "mamba", "mamba2", "conv", "recurrent", "M"})


def from_config(
    config: Mapping[str, Any], weight_bytes: int, *, honours_windows: bool = True
) -> ModelShape:
    """The shape of a model by its config; ``weight_bytes`` is what its tensors weigh.

    With ``honours_windows`` false, an engine is meant that keeps all tokens where the config
    alone asks for a window in every layer, as llama.cpp does with Mistral's and Phi-3's.

    Raises:
        ShapeError: a key that the arithmetic needs is missing or cannot be right.
    """
    keys = _Keys(config)
    n_layers = keys.count("num_hidden_layers", most=MOST_LAYERS)
    kinds = _kinds(keys, n_layers)
    if not honours_windows and "full" not in kinds:
        kinds = ["full" if kind == "sliding" else kind for kind in kinds]
    shared_from = n_layers - keys.count("num_kv_shared_layers", 0, most=n_layers)
    layers = tuple(_layer(keys, kind, n < shared_from) for n, kind in enumerate(kinds))
    embd = keys.count("hidden_size")
    return ModelShape(
        arch=str(keys.get("model_type") or "unknown"),
        layers=layers,
        embd=embd,
        ffn=3 * _ffn(keys),
        mixer=_mixer(keys, layers, embd),
        n_vocab=keys.count("vocab_size"),
        context_length=keys.count("max_position_embeddings", 0),
        weight_bytes=weight_bytes,
    )


def _kinds(keys: _Keys, n_layers: int) -> list[str]:
    """What each layer is: full, sliding, or state."""
    listed = keys.get("layer_types") or keys.get("layers_block_type")
    if isinstance(listed, list):
        if len(listed) < n_layers:
            raise ShapeError(f"layer_types has {len(listed)} entries for {n_layers} layers")
        return [_kind(str(name)) for name in listed[:n_layers]]
    if interval := keys.count("full_attention_interval", 0):
        return ["full" if (n + 1) % interval == 0 else "state" for n in range(n_layers)]
    if period := keys.count("attn_layer_period", 0):
        offset = keys.count("attn_layer_offset", 0)
        return ["full" if n % period == offset else "state" for n in range(n_layers)]
    if keys.get("model_type") in {"mamba", "mamba2", "falcon_mamba"}:
        return ["state"] * n_layers
    if not keys.count("sliding_window", 0) or keys.get("use_sliding_window") is False:
        return ["full"] * n_layers
    return [_by_pattern(keys, n) for n in range(n_layers)]


def _by_pattern(keys: _Keys, layer: int) -> str:
    """One full layer closes each period; without one, every layer slides."""
    period = keys.count("sliding_window_pattern", 0)
    return "full" if period and (layer + 1) % period == 0 else "sliding"


def _kind(name: str) -> str:
    for kind, names in (("full", _FULL), ("sliding", _SLIDING), ("state", _RECURRENT)):
        if name in names:
            return kind
    raise ShapeError(f"layer_types has {name!r}, which is not known here")


def _layer(keys: _Keys, kind: str, own_kv: bool) -> Layer:
    if kind == "state":
        return Layer(state=_state(keys))
    if not own_kv:
        return Layer()
    if rank := keys.count("kv_lora_rank", 0):
        return Layer(k_width=rank + keys.count("qk_rope_head_dim"))
    window = 0
    if kind == "sliding":
        window = keys.count("sliding_window", 0) or keys.count("attention_chunk_size", 0)
    width = keys.count("num_key_value_heads", keys.count("num_attention_heads")) * _head(keys)
    return Layer(k_width=width, v_width=width, window=window)


def _head(keys: _Keys) -> int:
    default = keys.count("hidden_size") // max(keys.count("num_attention_heads"), 1)
    return keys.count("head_dim", default) or default


def _state(keys: _Keys) -> int:
    """Elements a sequence: the convolution's last inputs and the state (see ``model_shape``)."""
    if cached := keys.count("conv_L_cache", 0):
        return keys.count("hidden_size") * (cached - 1)
    if heads := keys.count("linear_num_value_heads", 0):
        values = heads * keys.count("linear_value_head_dim")
        key_dim = keys.count("linear_key_head_dim")
        mixed = values + 2 * keys.count("linear_num_key_heads") * key_dim
        return (keys.count("linear_conv_kernel_dim", 4) - 1) * mixed + values * key_dim
    inner, states = _inner(keys), keys.count("mamba_d_state", keys.count("state_size", 0))
    kernel = keys.count("mamba_d_conv", keys.count("conv_kernel", 4))
    groups = keys.count("mamba_n_groups", keys.count("n_groups", 0))
    return (kernel - 1) * (inner + 2 * groups * states) + states * inner


def _inner(keys: _Keys) -> int:
    """Width of a state-space layer."""
    expand = keys.count("mamba_expand", keys.count("expand", 2))
    return keys.count("intermediate_size" if keys.is_mamba else "mamba_d_ssm", 0) or (
        expand * keys.count("hidden_size")
    )


def _ffn(keys: _Keys) -> int:
    used = keys.count("num_experts_per_tok", 0)
    return max(keys.count("intermediate_size", 0), used * keys.count("moe_intermediate_size", 0))


def _mixer(keys: _Keys, layers: Sequence[Layer], embd: int) -> int:
    heads = keys.count("num_attention_heads", 0)
    k_length = v_length = _head(keys) if heads else 0
    if rank := keys.count("kv_lora_rank", 0):
        k_length, v_length = rank + keys.count("qk_rope_head_dim"), rank
    is_conv = keys.count("conv_L_cache", 0) > 0
    inner = 0 if is_conv else _inner(keys)
    return mixer_width(layers, heads * k_length, heads * v_length, embd=embd, inner=inner)


class _Keys:
    """The language model's part of a config, checked."""

    __slots__ = ("_config", "is_mamba")

    def __init__(self, config: object) -> None:
        if not isinstance(config, dict):
            raise ShapeError("config.json is no JSON object")
        parts = (config.get(name) for name in _TEXT_PARTS)
        text = next((part for part in parts if isinstance(part, dict)), config)
        kind = str(text.get("model_type") or config.get("model_type"))
        self._config = {**_DEFAULTS.get(kind, {}), **text, "model_type": kind}
        self.is_mamba = kind in {"mamba", "mamba2", "falcon_mamba"}

    def get(self, key: str) -> Any:
        return self._config.get(key)

    def count(self, key: str, default: int | None = None, *, most: int = 2**32) -> int:
        value = self._config.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise ShapeError(f"{key} is {value!r}, not a count up to {most}")
        return value
