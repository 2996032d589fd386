"""What a build computes on decides whose memory a contender is judged by."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgesweep_agent.core.devices import computes_on_gpu
from edgesweep_agent.plan import ManagedSpec
from edgesweep_agent.sweep.box import Box
from edgesweep_agent.sweep.builds import box_of

DISCRETE = Box(gpu="discrete")


def built(model: Path, **more) -> ManagedSpec:
    return ManagedSpec(model, 1, 128, **more)


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("cuda: 1\nAvailable devices:\n  CUDA0: RTX 3090 (24124 MiB, 23800 MiB free)\n", True),
        ("Available devices:\n  Vulkan0: Intel(R) Graphics (RPL-S) (31822 MiB, 9 MiB free)", True),
        ("Available devices:\n  BLAS: OpenBLAS (0 MiB, 0 MiB free)\n", False),
        ("Available devices:\n", False),
        ("Available devices:\n  (none)\n", False),
        ("error: invalid argument: --list-devices\n", None),
        ("", None),
    ],
)
def test_devices_with_memory_are_what_a_build_computes_on(text, has):
    assert computes_on_gpu(text) is has


def server(tmp_path: Path, says: str) -> ManagedSpec:
    program = tmp_path / "llama-server"
    program.write_text(f"#!/bin/sh\n[ \"$1\" = --list-devices ] && printf '%b' '{says}'\n")
    program.chmod(0o755)
    return built(tmp_path / "m.gguf", server="llama-server", program=program)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("says", "gpu"),
    [
        (r"Available devices:\n  CUDA0: A2000 (5938 MiB, 5800 MiB free)\n", "discrete"),
        (r"Available devices:\n", "none"),
        ("unknown argument", "discrete"),
    ],
)
async def test_a_build_that_knows_of_no_gpu_is_judged_by_the_host(tmp_path, says, gpu):
    spec = server(tmp_path, says)
    assert (await box_of(spec, DISCRETE)).gpu == gpu
    assert (await box_of(spec, replace(DISCRETE, gpu="none"))).gpu == "none"


@pytest.mark.anyio
async def test_the_wheel_for_the_cpu_says_that_it_is_one(tmp_path):
    pytest.importorskip("xllamacpp")
    spec = built(tmp_path / "m.gguf", program=Path(sys.executable))
    assert (await box_of(spec, DISCRETE)).gpu == "none"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "changes",
    [{"server": "vllm", "engine": "vllm"}, {"server": "no such"}, {"launcher": "no such"}],
)
async def test_what_cannot_be_asked_keeps_the_gpu(tmp_path, changes):
    spec = built(tmp_path / "m.gguf", **{"server": "llama-server", **changes})
    assert (await box_of(spec, DISCRETE)).gpu == "discrete"
