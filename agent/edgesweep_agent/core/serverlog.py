"""Sizes that a server writes into its log, in the wordings of old and new builds.

A size that the log does not tell is ``None``: llama.cpp moved most of these lines to a higher
verbosity (ggml-org/llama.cpp#23021), and vLLM merged two into one (vllm-project/vllm#50462).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MIB, _GIB = 1 << 20, 1 << 30
_JIT_LINE = re.compile(r"JIT compilation during inference|Compiling a graph for")


@dataclass(frozen=True, slots=True)
class Reported:
    """What a server said of itself.

    Attributes:
        model_buffer_bytes: The weights, in all devices together.
        kv_buffer_bytes: The KV cache, or the pool.
        compute_buffer_bytes: Work space; for vLLM the memory of its CUDA graphs.
        recurrent_buffer_bytes: State of recurrent layers.
        kv_tokens: Tokens that the KV cache holds in all.
        n_slots: Requests served at once.
        n_ctx_slot: Tokens that one request may use.
        kv_unified: One pool for all slots (llama.cpp).
        flash_attention: As the server settled it: ``enabled``, ``disabled``, ``auto``.
        max_concurrency: Requests at full length that vLLM says the pool holds.
        jit_lines: Compilations while requests were served: they spoil a level.
    """

    model_buffer_bytes: int | None = None
    kv_buffer_bytes: int | None = None
    compute_buffer_bytes: int | None = None
    recurrent_buffer_bytes: int | None = None
    kv_tokens: int | None = None
    n_slots: int | None = None
    n_ctx_slot: int | None = None
    kv_unified: bool | None = None
    flash_attention: str | None = None
    max_concurrency: float | None = None
    jit_lines: tuple[str, ...] = ()


def llamacpp(text: str) -> Reported:
    """Read llama.cpp's log (``-lv 4`` since May 2026, the default verbosity before)."""
    slots = _search(r"initializing(?: slots)?, n_slots = (\d+)", text)
    unified = _search(r"kv_unified\s*= '?(true|false|1|0)\b", text)
    return Reported(
        model_buffer_bytes=_sum(r"model buffer size\s*=\s*([\d.]+) MiB", text),
        kv_buffer_bytes=_kv_bytes(text),
        compute_buffer_bytes=_sum(r"compute buffer size\s*=\s*([\d.]+) MiB", text),
        recurrent_buffer_bytes=_sum(r"RS buffer size\s*=\s*([\d.]+) MiB", text),
        kv_tokens=_kv_tokens(text),
        n_slots=None if slots is None else int(slots),
        n_ctx_slot=_int(r"n_ctx_(?:slot|per_seq|seq)\s*= (\d+)", text),
        kv_unified=None if unified is None else unified in {"true", "1"},
        flash_attention=_flash_attention(text),
        jit_lines=jit_lines(text),
    )


def vllm(text: str) -> Reported:
    """Read vLLM's log at its default level."""
    return Reported(
        model_buffer_bytes=_gib(r"Model loading took ([\d.]+) Gi?B", text),
        kv_buffer_bytes=_int(r"'kv_cache_memory_bytes': (\d+)", text)
        or _gib(r"Available KV cache memory: ([\d.]+) GiB", text),
        compute_buffer_bytes=_gib(r"[Gg]raph (?:capturing|pool memory)[^\n]*?([\d.]+) GiB", text),
        kv_tokens=_int(r"KV cache size: ([\d,]+) tokens", text),
        n_slots=_int(r"'?max_num_seqs'?[:=] ?(\d+)", text),
        n_ctx_slot=_int(r"max_seq_len[:=] ?(\d+)", text),
        max_concurrency=_float(
            r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x", text
        ),
        jit_lines=jit_lines(text),
    )


def jit_lines(text: str) -> tuple[str, ...]:
    """Lines that tell of compiling; those after the warm-up spoil a level."""
    return tuple(line.strip() for line in text.splitlines() if _JIT_LINE.search(line))


def _kv_bytes(text: str) -> int | None:
    """Old builds print the buffers and their sum: the sum counts where there is nothing else."""
    buffers = _sum(r"KV buffer size\s*=\s*([\d.]+) MiB", text)
    return buffers or _sum(r"KV self size\s*=\s*([\d.]+) MiB", text)


def _kv_tokens(text: str) -> int | None:
    """Cells times streams: ``(512 cells, 30 layers, 2/2 seqs)``, a stream for each sequence."""
    found = re.findall(r"\(\s*(\d+) cells,\s*\d+ layers,\s*(\d+)(?:/(\d+))? seqs\)", text)
    if not found:
        return _int(r"n_ctx\s*= (\d+)", text)
    return max(int(cells) * int(streams or 1) for cells, _seqs, streams in found)


def _flash_attention(text: str) -> str | None:
    settled = _search(r"Flash Attention (?:was (?:auto,? )?set to )?(enabled|disabled)", text)
    return settled or _search(r"flash_attn\s*= (\w+)", text)


def _search(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return None if match is None else match[1]


def _int(pattern: str, text: str) -> int | None:
    found = _search(pattern, text)
    return None if found is None else int(found.replace(",", ""))


def _float(pattern: str, text: str) -> float | None:
    found = _search(pattern, text)
    return None if found is None else float(found)


def _sum(pattern: str, text: str) -> int | None:
    found = re.findall(pattern, text)
    return None if not found else round(sum(map(float, found)) * _MIB)


def _gib(pattern: str, text: str) -> int | None:
    found = _float(pattern, text)
    return None if found is None else round(found * _GIB)
