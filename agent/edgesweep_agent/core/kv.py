"""Bytes of the KV cache and of recurrent states, as llama.cpp and as vLLM count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model_shape import ShapeError

if TYPE_CHECKING:
    from .model_shape import Layer, ModelShape

CELLS = 256
"""llama.cpp rounds the cells of a stream up to this (src/llama-context.cpp)."""

_BLOCK = 32
BYTES_OF_32 = {
    "f32": 128,
    "f16": 64,
    "bf16": 64,
    "q8_0": 34,
    "q5_1": 24,
    "q5_0": 22,
    "q4_1": 20,
    "q4_0": 18,
    "iq4_nl": 18,
}
"""Bytes of 32 elements in the types that ``--cache-type-k`` and ``-v`` take."""
_STATE_BYTES = 4
"""A recurrent state is F32 whatever the KV types are (src/llama-memory-recurrent.cpp)."""


def kv_bytes(
    shape: ModelShape,
    *,
    slots: int,
    context_per_request: int,
    k_type: str = "f16",
    v_type: str = "f16",
    unified: bool = False,
    n_ubatch: int = 512,
    swa_full: bool = False,
) -> int:
    """Bytes that llama.cpp reserves: its ``KV buffer size`` and ``RS buffer size`` lines.

    The arithmetic of src/llama-kv-cache.cpp and llama-kv-cache-iswa.cpp: one stream a slot, or
    one for all (``unified``); sliding-window layers keep the window and one batch.

    Raises:
        ShapeError: a KV type that llama.cpp does not have, or cannot use with this model.
    """
    streams = 1 if unified else slots
    tokens = slots * context_per_request if unified else context_per_request
    cells = _padded(tokens)
    total = 0
    for layer in shape.layers:
        kept = cells
        if layer.window and not swa_full:
            window = layer.window * (slots if unified else 1)
            kept = _padded(min(cells, window + n_ubatch))
        total += kept * streams * _row_bytes(layer, k_type, v_type)
        total += slots * layer.state * _STATE_BYTES
    return total


def kv_bytes_per_token(shape: ModelShape, k_type: str = "f16", v_type: str = "f16") -> float:
    """Bytes that one token occupies in all layers; beyond a window its oldest token is freed.

    Raises:
        ShapeError: a KV type that llama.cpp does not have, or cannot use with this model.
    """
    return float(sum(_row_bytes(layer, k_type, v_type) for layer in shape.layers))


def vllm_block_bytes(layer: Layer, *, block_size: int, dtype_bytes: int) -> int:
    """A layer's page: ``block_size`` tokens of K and V (v1/kv_cache_interface.py)."""
    return block_size * (layer.k_width + layer.v_width) * dtype_bytes


def vllm_request_bytes(
    shape: ModelShape,
    *,
    context: int,
    block_size: int = 16,
    dtype_bytes: int = 2,
    batched_tokens: int = 2048,
) -> int:
    """Bytes of the pool that one request of ``context`` tokens takes at most.

    Full-attention layers keep all blocks, sliding ones the window, the tokens in flight and a
    block for their alignment; layers of one kind go into groups of equal size, the last one
    filled up (v1/core/kv_cache_utils.py).
    """
    full = [layer for layer in shape.layers if _pages(layer) and not layer.window]
    sliding = [layer for layer in shape.layers if _pages(layer) and layer.window]
    group = _group_size(len(full), len(sliding))
    total = 0
    for layers in (full, sliding):
        if not layers:
            continue
        page = max(vllm_block_bytes(one, block_size=block_size, dtype_bytes=dtype_bytes)
                   for one in layers)  # fmt: skip
        blocks = _vllm_blocks(layers[0].window, context, block_size, batched_tokens)
        total += blocks * page * _round_up(len(layers), group)
    return total + dtype_bytes * sum(layer.state for layer in shape.layers)


def kv_cache_size_tokens(
    shape: ModelShape,
    pool_bytes: int,
    *,
    context: int,
    block_size: int = 16,
    dtype_bytes: int = 2,
    batched_tokens: int = 2048,
) -> int:
    """Tokens of the pool as vLLM's log tells them: requests of ``context`` that fit, times it."""
    request = vllm_request_bytes(
        shape,
        context=context,
        block_size=block_size,
        dtype_bytes=dtype_bytes,
        batched_tokens=batched_tokens,
    )
    return int(pool_bytes / request * context) if request else 0


def _row_bytes(layer: Layer, k_type: str, v_type: str) -> int:
    return _row(k_type, layer.k_width) + _row(v_type, layer.v_width)


def _row(kind: str, width: int) -> int:
    if kind not in BYTES_OF_32:
        raise ShapeError(f"{kind!r} is no KV type of llama.cpp: {', '.join(BYTES_OF_32)}")
    if kind in {"f32", "f16", "bf16"}:
        return width * BYTES_OF_32[kind] // _BLOCK
    if width % _BLOCK:
        raise ShapeError(f"KV type {kind} takes rows of 32 elements, the model has rows of {width}")
    return width // _BLOCK * BYTES_OF_32[kind]


def _padded(tokens: int) -> int:
    return _round_up(tokens, CELLS)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _pages(layer: Layer) -> bool:
    return layer.k_width + layer.v_width > 0


def _group_size(full: int, sliding: int) -> int:
    """The smaller kind's count, or the larger's where they are nearly alike."""
    fewest, most = sorted((full or sliding, sliding or full))
    return most if most < 1.25 * fewest else max(fewest, 1)


def _vllm_blocks(window: int, context: int, block_size: int, batched_tokens: int) -> int:
    if not window:
        return -(-context // block_size)
    return -(-min(window - 1 + batched_tokens, context) // block_size) + 1
