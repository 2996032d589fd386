"""One short name for one chip, however its driver, its firmware or its box spells it."""

from __future__ import annotations

import re

_ARM_PARTS = {
    "0xd03": "cortex-a53",
    "0xd04": "cortex-a35",
    "0xd05": "cortex-a55",
    "0xd07": "cortex-a57",
    "0xd08": "cortex-a72",
    "0xd0a": "cortex-a75",
    "0xd0b": "cortex-a76",
    "0xd0c": "neoverse-n1",
    "0xd40": "neoverse-v1",
    "0xd41": "cortex-a78",
    "0xd42": "cortex-a78ae",
    "0xd49": "neoverse-n2",
    "0xd4b": "cortex-a78c",
    "0xd4f": "neoverse-v2",
    "0xd83": "neoverse-v3ae",
    "0xd85": "cortex-x925",
    "0xd87": "cortex-a725",
}
"""Implementer 0x41 (Arm Ltd.); arch/arm64/include/asm/cputype.h."""
_NVIDIA_PARTS = {"0x003": "denver2", "0x004": "carmel"}

_CPU_NOISE = re.compile(
    r"\((?:r|tm)\)|\b(?:cpu|processor|apu)\b|@.*|\bw/.*|\bwith .*|\b\d+(?:st|nd|rd|th) gen\b"
    r"|\b\d+-core\b",
    re.IGNORECASE,
)
_GPU_NOISE = re.compile(
    r"\b(?:nvidia|geforce|tesla|quadro(?= rtx)|graphics|gpu)\b|\(nvgpu\)|\b\d+ ?gb\b",
    re.IGNORECASE,
)
_UNIFIED = re.compile(r"\(nvgpu\)|\b(?:orin|xavier|thor|gb10|n1x)\b", re.IGNORECASE)


def slug(text: str) -> str:
    """Lower case, and nothing but letters, digits, ``+``, ``:`` and single hyphens."""
    return re.sub(r"[^a-z0-9+:]+", "-", text.lower()).strip("-")


def cpu(name: str) -> str:
    """``12th Gen Intel(R) Core(TM) i7-12700E`` becomes ``intel-i7-12700e``."""
    short = slug(_CPU_NOISE.sub(" ", name))
    return re.sub(r"\bcore-(?=i\d-)", "", short)


def gpu(name: str) -> str:
    """``NVIDIA RTX A2000 12GB`` becomes ``rtx-a2000``; memory is told apart from the name."""
    return re.sub(r"-(?=\d+gb(?:-|$))\d+gb", "", slug(_GPU_NOISE.sub(" ", name)))


def shares_memory(gpu_name: str) -> bool:
    """Whether a GPU of that name uses the memory of the board (Orin, Thor, GB10 ...)."""
    return _UNIFIED.search(gpu_name) is not None


def arm_core(implementer: str, part: str) -> str:
    """``0x41``, ``0xd42`` become ``cortex-a78ae``; an unknown core keeps its numbers."""
    known = {"0x41": _ARM_PARTS, "0x4e": _NVIDIA_PARTS}.get(implementer, {})
    return known.get(part, f"{implementer}-{part}" if part else "")
