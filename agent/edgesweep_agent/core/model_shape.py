"""What of a model decides its memory: a layer's cache, its state, and the widths around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .gguf import bits_per_weight, bytes_by_type, weight_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .gguf import GgufHeader, Value

MOST_LAYERS = 4096


class ShapeError(ValueError):
    """Facts that the arithmetic needs are missing or cannot be right; the message names the key."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer keeps: elements of K and V a token, or of a state a sequence.

    ``window`` bounds the tokens kept (0: all of them). A layer that shares another's cache, or
    has only a state, has widths of 0. A layer of latent attention (MLA) has K alone.
    """

    k_width: int = 0
    v_width: int = 0
    window: int = 0
    state: int = 0


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model as its memory sees it.

    ``weight_bytes`` are those of its tensors. ``ffn`` and ``mixer`` are the elements that a
    token has at once in the widest feed-forward and in the widest attention or recurrent layer,
    beside those of the residual stream (``embd``): what a compute buffer is made of.
    """

    arch: str
    layers: tuple[Layer, ...]
    embd: int
    ffn: int
    mixer: int
    n_vocab: int
    context_length: int
    weight_bytes: int
    bits_per_weight: float | None = None
    bytes_by_type: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Periods:
    period: int
    window: int = 0
    first_is_full: bool = False


_SLIDING = {
    "gemma2": _Periods(2, 4096),
    "gemma3": _Periods(6),
    "gemma3n": _Periods(5),
    "gemma4": _Periods(6),
    "gemma-embedding": _Periods(6),
    "gpt-oss": _Periods(2),
    "cohere2": _Periods(4),
    "cohere2moe": _Periods(4, 0, first_is_full=True),
    "llama4": _Periods(4, 8192),
    "olmo2": _Periods(4),
    "exaone4": _Periods(4),
    "exaone-moe": _Periods(4),
    "afmoe": _Periods(4),
    "smallthinker": _Periods(4, 4096, first_is_full=True),
    "plamo3": _Periods(8),
    "modern-bert": _Periods(3, 0, first_is_full=True),
    "step35": _Periods(0),
    "mimo2": _Periods(0),
}
"""One full-attention layer a period, and the window where no key tells it (llama.cpp
src/models/*.cpp). An architecture that is not here ignores ``attention.sliding_window``, as
llama.cpp does with Phi-3's and Mistral's, unless the file has a pattern."""

_SHARED_KV_FROM = {"gemma3n": 20}
"""Layers from here on use the cache of an earlier one (llama.cpp src/models/gemma3n.cpp)."""

_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
_PARALLEL = frozenset({"falcon-h1"})
"""Attention and a state in every layer."""
_INTERVAL = frozenset({"qwen3next", "qwen35", "qwen35moe"})
_TOKEN_SHIFTS = {"rwkv7": 2, "rwkv6": 2, "rwkv6qwen2": 1, "arwkv7": 1}


def from_gguf(headers: Sequence[GgufHeader]) -> ModelShape:
    """The shape of a model from the headers of its file, or of all files it is split over.

    Raises:
        ShapeError: a key that the arithmetic needs is missing or cannot be right.
    """
    keys = _Keys(headers[0].metadata)
    n_layers = keys.integer("block_count", most=MOST_LAYERS)
    n_layers -= keys.integer("nextn_predict_layers", 0, most=n_layers)
    if n_layers < 1:
        raise ShapeError(f"{keys.arch}.block_count leaves no layers")
    by_type = bytes_by_type(headers)
    embd = keys.integer("embedding_length")
    layers = tuple(_layer(keys, n, n_layers) for n in range(n_layers))
    experts = keys.integer("expert_used_count", 0) * keys.integer("expert_feed_forward_length", 0)
    return ModelShape(
        arch=keys.arch,
        layers=layers,
        embd=embd,
        ffn=3 * max((*keys.per_layer("feed_forward_length", n_layers, 0), experts)),
        mixer=_mixer(keys, layers),
        n_vocab=_vocabulary(keys, headers),
        context_length=keys.integer("context_length", 0),
        weight_bytes=weight_bytes(headers),
        bits_per_weight=bits_per_weight(headers),
        bytes_by_type=tuple(by_type.items()),
    )


def mixer_width(
    layers: Sequence[Layer], q_width: int, v_width: int, *, embd: int, inner: int
) -> int:
    """Elements a token at the widest point of attention, a state-space or a convolution layer.

    Queries and the output beside K and V; latent attention expands both for every head. Found
    from the compute buffers of random models (tests/bench/memory_cases.py), rounded up.
    """
    widest = 0
    for layer in layers:
        is_latent = layer.k_width and not layer.v_width
        if layer.k_width:
            kv_width = v_width if is_latent else layer.k_width + layer.v_width
            widest = max(widest, 2 * q_width + kv_width)
        if layer.state:
            widest = max(widest, 5 * inner if inner else 3 * embd)
    return widest


def _mixer(keys: _Keys, layers: Sequence[Layer]) -> int:
    n_layers = len(layers)
    heads = max(keys.per_layer("attention.head_count", n_layers, 0))
    k_length, v_length = _head_lengths(keys, 0, n_layers, windowed=False)
    return mixer_width(
        layers,
        heads * k_length,
        heads * v_length,
        embd=keys.integer("embedding_length"),
        inner=keys.integer("ssm.inner_size", 0),
    )


def _layer(keys: _Keys, layer: int, n_layers: int) -> Layer:
    kv_heads = _kv_heads(keys, layer, n_layers)
    state = _state(keys, layer, kv_heads)
    if layer >= _own_kv(keys, n_layers) or (state and keys.arch not in _PARALLEL):
        return Layer(state=state)
    window = _window(keys, layer)
    k_length, v_length = _head_lengths(keys, layer, n_layers, windowed=window > 0)
    is_mla = keys.has("attention.key_length_mla") and keys.has("attention.kv_lora_rank")
    return Layer(
        k_width=kv_heads * k_length,
        v_width=0 if is_mla else kv_heads * v_length,
        window=window,
        state=state,
    )


def _kv_heads(keys: _Keys, layer: int, n_layers: int) -> int:
    heads = keys.per_layer("attention.head_count", n_layers, 0)[layer]
    return keys.per_layer("attention.head_count_kv", n_layers, heads)[layer]


def _head_lengths(keys: _Keys, layer: int, n_layers: int, *, windowed: bool) -> tuple[int, int]:
    heads = max(keys.per_layer("attention.head_count", n_layers, 0)[layer], 1)
    default = keys.integer("embedding_length") // heads
    k_length = keys.integer("attention.key_length", default)
    v_length = keys.integer("attention.value_length", default)
    if not windowed:
        return k_length, v_length
    return (
        keys.integer("attention.key_length_swa", k_length),
        keys.integer("attention.value_length_swa", v_length),
    )


def _own_kv(keys: _Keys, n_layers: int) -> int:
    """Layers before this one keep KV of their own."""
    if keys.has("attention.shared_kv_layers"):
        return n_layers - keys.integer("attention.shared_kv_layers", most=n_layers)
    return _SHARED_KV_FROM.get(keys.arch, n_layers)


def _window(keys: _Keys, layer: int) -> int:
    known = _SLIDING.get(keys.arch)
    window = keys.integer("attention.sliding_window", known.window if known else 0)
    pattern = keys.value("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        return window if layer < len(pattern) and pattern[layer] else 0
    is_scalar = isinstance(pattern, int) and not isinstance(pattern, bool)
    if known is None and not is_scalar:
        return 0
    period = pattern if is_scalar and isinstance(pattern, int) else known.period if known else 0
    return window if _slides(layer, period, bool(known and known.first_is_full)) else 0


def _slides(layer: int, period: int, first_is_full: bool) -> bool:
    """``llama_hparams::set_swa_pattern``: period 0 is a window in every layer, 1 in none."""
    if period <= 0:
        return period == 0
    return layer % period != (0 if first_is_full else period - 1)


def _state(keys: _Keys, layer: int, kv_heads: int) -> int:
    """Elements of the recurrent state a sequence (llama.cpp ``n_embd_r`` + ``n_embd_s``)."""
    if not _is_recurrent(keys, layer, kv_heads):
        return 0
    if head := keys.integer("wkv.head_size", 0):
        embd = keys.integer("embedding_length")
        return _TOKEN_SHIFTS.get(keys.arch, 2) * embd + embd * head
    if cached := keys.integer("shortconv.l_cache", 0):
        return keys.integer("embedding_length") * (cached - 1)
    convolution = max(keys.integer("ssm.conv_kernel", 0) - 1, 0)
    if dim := keys.integer("kda.head_dim", 0):
        heads = keys.integer("attention.head_count")
        return 3 * convolution * heads * dim + heads * dim * dim
    inner, states = keys.integer("ssm.inner_size", 0), keys.integer("ssm.state_size", 0)
    groups = keys.integer("ssm.group_count", 0)
    return convolution * (inner + 2 * groups * states) + states * inner


def _is_recurrent(keys: _Keys, layer: int, kv_heads: int) -> bool:
    if keys.arch in _RECURRENT or keys.arch in _PARALLEL:
        return True
    if keys.arch in _INTERVAL:
        interval = keys.integer("full_attention_interval", 4)
        return (layer + 1) % max(interval, 1) != 0
    return kv_heads == 0


def _vocabulary(keys: _Keys, headers: Sequence[GgufHeader]) -> int:
    """Rows of the token embedding; what the metadata say may be padded, or missing."""
    for header in headers:
        for tensor in header.tensors:
            if tensor.name == "token_embd.weight" and len(tensor.shape) == 2:
                return tensor.shape[1]
    return keys.integer("vocab_size", 0)


class _Keys:
    """Metadata under the architecture's name, checked."""

    __slots__ = ("_metadata", "arch")

    def __init__(self, metadata: Mapping[str, Value]) -> None:
        arch = metadata.get("general.architecture")
        if not isinstance(arch, str) or not arch:
            raise ShapeError("general.architecture is missing: no language model")
        self._metadata, self.arch = metadata, arch

    def has(self, key: str) -> bool:
        return f"{self.arch}.{key}" in self._metadata

    def value(self, key: str) -> Value | None:
        return self._metadata.get(f"{self.arch}.{key}")

    def integer(self, key: str, default: int | None = None, *, most: int = 2**32) -> int:
        """A count; of an array the largest."""
        value = self.value(key)
        if isinstance(value, tuple):
            value = max((v for v in value if isinstance(v, int)), default=None)
        if value is None and default is not None:
            return default
        return self._checked(key, value, most)

    def per_layer(self, key: str, n_layers: int, default: int) -> tuple[int, ...]:
        """A count a layer: the file has one for all of them, or an array."""
        value = self.value(key)
        if not isinstance(value, tuple):
            return (self.integer(key, default),) * n_layers
        if len(value) < n_layers:
            raise ShapeError(f"{self.arch}.{key} has {len(value)} values for {n_layers} layers")
        return tuple(self._checked(key, one, 2**32) for one in value[:n_layers])

    def _checked(self, key: str, value: object, most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise ShapeError(f"{self.arch}.{key} is {value!r}, not a count up to {most}")
        return value
