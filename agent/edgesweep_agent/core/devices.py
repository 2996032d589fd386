"""The devices that a build of llama.cpp computes on, as ``--list-devices`` writes them.

common/arg.cpp writes ``Available devices:`` and a line for each, ``CUDA0: NVIDIA ... (24124 MiB,
23800 MiB free)``. The CPU is none of them; BLAS is one in some builds, without memory.
"""

from __future__ import annotations

import re

_HEAD = "Available devices:"
_LINE = re.compile(r"^\s+[^\s:][^:]*: .*\((\d+) MiB, \d+ MiB free\)\s*$", re.MULTILINE)


def computes_on_gpu(text: str) -> bool | None:
    """Whether one of the devices has memory; ``None`` if the build did not list any."""
    _, head, listed = text.partition(_HEAD)
    if not head:
        return None
    return any(int(match[1]) > 0 for match in _LINE.finditer(listed))
