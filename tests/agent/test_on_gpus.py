"""Contenders on GPUs with memory of their own: judged, guarded, and put away by what NVML says."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

import hardware_tree
from edgesweep_agent import device, memory
from edgesweep_agent.attach import Patience
from edgesweep_agent.core import placement
from edgesweep_agent.core.available import Available
from edgesweep_agent.core.gpu_memory import RESERVE_BYTES, Gpu, GpuUse
from edgesweep_agent.core.placement import LayerWeights
from edgesweep_agent.core.verdict import LlamaCpp
from edgesweep_agent.errors import LaunchError
from edgesweep_agent.plan import ManagedSpec, SweepPlan
from edgesweep_agent.sensors import nvml
from edgesweep_agent.sensors.files import Files, absent
from edgesweep_agent.sweep.admission import admit, in_cache, needed_in_cache
from edgesweep_agent.sweep.box import Box
from edgesweep_agent.sweep.contender import Opening
from edgesweep_agent.sweep.footprint import Footprint
from edgesweep_agent.sweep.managed import managed
from edgesweep_agent.sweep.on_gpus import OnGpus, on_gpus
from fake_nvml import FakeNvml
from random_gguf import Recipe, write

MIB, GIB = 2**20, 2**30
CONTEXT = 4096
LEVELS = (1, 2, 4, 8, 16)
LOST, UNSUPPORTED = "NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_NOT_SUPPORTED"


def built(model, slots, context, **more):
    """A contender whose build does not tell what it computes on: it is taken to be the GPU."""
    untold = {"server": "llama-server", "program": model.with_name("absent")}
    return ManagedSpec(model, slots, context, **{**untold, **more})


def card(free_mib, total_mib=6144):
    return {"total_mib": total_mib, "used_mib": total_mib - free_mib, "free_mib": free_mib}


def library(*cards, name="NVIDIA RTX A2000", **told):
    uuids = [f"GPU-{n}" for n in range(len(cards))]
    answers = {"init": "ok", "count": len(cards), "name": name, "memory": list(cards)}
    return nvml.start(FakeNvml({**answers, "uuid": uuids, **told}))


@pytest.mark.parametrize(
    ("found", "kind", "gpus"),
    [
        (library(card(6000)), "discrete", (Gpu(0, "GPU-0", 6 * GIB, 6000 * MIB),)),
        (library(card(6000), card(20_000, 24_576)), "discrete",
         (Gpu(0, "GPU-0", 6 * GIB, 6000 * MIB), Gpu(1, "GPU-1", 24 * GIB, 20_000 * MIB))),
        # One that fell off the bus is no GPU that shares the board's memory.
        (library(LOST), "discrete", (Gpu(0, "GPU-0"),)),
        (library(UNSUPPORTED, name="NVIDIA GB10"), "unified", ()),
        (library(UNSUPPORTED, name="a GPU of tomorrow"), "unified", ()),
        # Whatever such a driver tells of memory is the board's own.
        (library(card(6000), name="Orin (nvgpu)"), "unified", ()),
        (library(), "none", ()),
        (absent("no NVIDIA driver on this box"), "none", ()),
    ],
)  # fmt: skip
def test_a_gpu_has_memory_of_its_own_where_nvml_tells_it(tmp_path, found, kind, gpus):
    assert device.gpu_kind_of(Files(tmp_path), found) == kind
    if isinstance(found, nvml.Nvml):
        assert found.gpus() == gpus


def test_the_cards_of_a_box_are_found_in_its_fixture():
    (found,) = nvml.start(hardware_tree.nvml_of("x86-ipc-rtx-a2000-12gb")).gpus()
    assert (found.total_bytes, found.free_bytes) == (12_282 * MIB, 11_770 * MIB)


def test_nothing_is_asked_where_the_files_are_another_boxs(tmp_path):
    assert device.gpus(root=tmp_path)() == ()


# The verdict


@dataclass
class FixedBox:
    """So much memory of the host, and cards."""

    available_bytes: int | None
    cards: tuple[Gpu, ...] = ()
    gpu: str = "discrete"
    reused_bytes: int = -1

    def available(self, *, reused_bytes):
        self.reused_bytes = reused_bytes
        return Available(64 * GIB, self.available_bytes, "MemAvailable", ())

    def gpus(self):
        return self.cards


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write(tmp_path_factory.mktemp("models") / "model.gguf", Recipe(layers=8, kv_heads=4))


def cards(*free_bytes):
    return tuple(Gpu(n, f"GPU-{n}", 12 * GIB, free) for n, free in enumerate(free_bytes))


def admitted(spec, box, **settings):
    plan = SweepPlan((spec,), levels=LEVELS, reserve="64MiB", **settings)
    return anyio.run(lambda: admit(spec, plan, LEVELS, box))


ONE = GpuUse((0,))


def needs(model, slots, use=ONE):
    """Bytes on the GPU, with what stays free there."""
    found = placement.placed(
        LlamaCpp(slots, CONTEXT), memory.model(model), use, memory.layer_weights(model)
    )
    return sum(size for _, size in found.gpu) + use.reserve_bytes


def test_the_gpu_limits_where_the_host_has_plenty(model):
    box = FixedBox(64 * GIB, cards(needs(model, 5)))
    found = admitted(built(model, 16, CONTEXT), box)
    assert (found.spec.slots, set(found.admitted), set(found.refused)) == (5, {1, 2, 4}, {8, 16})
    for slots, verdict in ((5, found.admitted[1]), (8, found.refused[8]), (16, found.refused[16])):
        assert verdict.limited_by == "gpu0 free"
        assert verdict.available_bytes == needs(model, 5)
        assert verdict.reserve_bytes == RESERVE_BYTES
        assert verdict.needed_bytes == needs(model, slots) - RESERVE_BYTES
        assert sum(size for _, size in verdict.terms) == verdict.needed_bytes
    assert found.sized == f"5 of 16 slots: {found.refused[16].text}"
    assert "(gpu0 free " in found.sized
    assert "KV 16 x 4,096 x " in found.sized


def test_the_host_limits_where_the_gpu_has_plenty(model):
    found = admitted(built(model, 16, CONTEXT), FixedBox(100 * MIB, cards(24 * GIB)))
    assert not found.admitted
    verdict = found.refused[16]
    assert (verdict.limited_by, verdict.reserve_bytes) == ("MemAvailable", 64 * MIB)
    assert not any(name.startswith("KV ") for name, _ in verdict.terms)
    assert dict(verdict.terms)["load generator"] > 0


def test_a_contender_that_the_plan_keeps_off_the_gpu_is_judged_by_the_host_alone(model):
    full = FixedBox(64 * GIB, cards(0))
    kept = built(model, 16, CONTEXT, gpu_layers=0)
    on_host = admitted(kept, full)
    assert (on_host.spec.slots, on_host.refused) == (16, {})
    plain = admitted(kept, FixedBox(64 * GIB, gpu="none"))
    assert on_host == plain
    # All its weights are mapped, as on a box without a GPU.
    weights = memory.model(model).weight_bytes
    assert full.reused_bytes == needed_in_cache(kept, weights, "none") > weights


def test_on_shared_memory_nothing_changes_whatever_nvml_says(model):
    spec = built(model, 16, CONTEXT)
    shared = [FixedBox(2 * GIB, told, gpu="unified") for told in ((), cards(0))]
    assert admitted(spec, shared[0]) == admitted(spec, shared[1])
    assert on_gpus(spec, shared[1]) is None


def test_layers_that_stay_are_weighed_against_the_host(model):
    part = built(model, 4, CONTEXT, gpu_layers=3)
    use = GpuUse((0,), layers=3)
    box = FixedBox(64 * GIB, cards(needs(model, 4, use)))
    found = admitted(part, box)
    assert (found.spec.slots, found.refused) == (4, {})
    assert needs(model, 4, use) < needs(model, 4)
    whole = admitted(built(model, 4, CONTEXT), box)
    assert not whole.admitted
    # The host maps what stays, and no more.
    stays = memory.layer_weights(model).host_bytes(3)
    assert 0 < stays < memory.model(model).weight_bytes
    admitted(part, box)
    assert box.reused_bytes == needed_in_cache(part, stays, "none")


def test_tensors_that_the_plan_keeps_are_weighed_against_the_host(model):
    box = FixedBox(64 * GIB, cards(GIB))
    plain, kept = (
        on_gpus(built(model, 4, CONTEXT, flags=flags), box) for flags in ({}, {"-ot": "ffn_up=CPU"})
    )
    assert kept.host_weight_bytes > plain.host_weight_bytes > 0


def test_several_gpus_are_one_pool_unless_the_plan_names_one(model):
    spec = built(model, 16, CONTEXT)
    both = needs(model, 16, GpuUse((0, 1)))
    box = FixedBox(64 * GIB, cards(both // 2, both - both // 2))
    found = admitted(spec, box)
    assert (found.spec.slots, found.admitted[1].limited_by) == (16, "gpu0 + gpu1 free")
    alone = built(model, 16, CONTEXT, environment={"CUDA_VISIBLE_DEVICES": "1"})
    found = admitted(alone, box)
    assert {verdict.limited_by for verdict in found.refused.values()} == {"gpu1 free"}


def test_replicas_share_a_gpu(model):
    spec = built(model, 8, CONTEXT, replicas=2)
    box = FixedBox(64 * GIB, cards(2 * (needs(model, 3) - RESERVE_BYTES) + RESERVE_BYTES))
    found = admitted(spec, box)
    assert (found.spec.slots, set(found.admitted), set(found.refused)) == (3, {1, 2, 4}, {8, 16})


def test_a_gpu_that_does_not_tell_leaves_the_level_unjudged(model):
    spec = built(model, 4, CONTEXT)
    found = admitted(spec, FixedBox(64 * GIB, cards(None)))
    assert (found.spec, found.admitted, found.refused) == (spec, {}, {})


@pytest.mark.parametrize(
    ("gpu", "on_host_mib", "weights_mib"),
    [("none", None, 100), ("discrete", None, 100), ("unified", None, 0), ("discrete", 30, 30)],
)
def test_what_is_mapped_is_what_the_host_keeps(gpu, on_host_mib, weights_mib):
    spec = ManagedSpec(Path("m"), 1, CONTEXT)
    on = None
    if on_host_mib is not None:
        weights = LayerWeights(on_host_mib * MIB, 0, (70 * MIB,))
        on = OnGpus(GpuUse((0,)), weights, tuple)
    libraries = needed_in_cache(spec, 0, "none")
    assert in_cache(spec, 100 * MIB, gpu, on) - libraries == weights_mib * MIB


# The guard, and what comes back


class Card:
    """A GPU whose free memory a test sets."""

    def __init__(self, free_mib):
        self.free_mib = free_mib

    def __call__(self):
        free = None if self.free_mib is None else self.free_mib * MIB
        return (Gpu(0, "GPU-0", 6 * GIB, free),)


TESTS = Path(__file__).resolve().parents[1]
SERVER = f"""#!{sys.executable}
import os, sys
if "--port" not in sys.argv:
    sys.exit("version: 10573 (3f545becc)" if "--version" in sys.argv else 0)
port = sys.argv[sys.argv.index("--port") + 1]
os.execv(sys.executable, [sys.executable, {str(TESTS / "engine_server.py")!r}, "--port", port])
"""


@pytest.fixture
def spec(tmp_path, model):
    program = tmp_path / "llama-server"
    program.write_text(SERVER)
    program.chmod(0o755)
    return built(model, 2, 64, server="llama-server", program=program)


def opened(spec, found):
    plan = SweepPlan((spec,), reserve="1MiB")
    box = Box(gpu="discrete", gpus=found)
    return managed(spec, Opening(plan, box, Patience(), lambda *_: None))


def test_an_engine_that_fills_its_gpu_is_ended(spec, caplog):
    async def level():
        found = Card(4000)
        async with opened(spec, found) as ready:
            before = ready.breach(), ready.died()
            found.free_mib = 100
            with anyio.fail_after(10):
                while ready.died() is None:
                    await anyio.sleep(0.02)
            after = ready.breach()
            with anyio.fail_after(10):
                while any(Path(f"/proc/{pid}").exists() for pid in ready.pids()):
                    await anyio.sleep(0.02)
            found.free_mib = 4000
        return before, after

    before, after = anyio.run(level)
    assert before == (None, None)
    assert after.startswith("memory_floor: available 100 MiB (gpu0 free) is under the reserve of")
    assert "the engine is ended: memory_floor" in caplog.text
    assert "did not come back" not in caplog.text


def test_a_gpu_that_is_full_before_the_start_starts_nothing(spec):
    async def level():
        async with opened(spec, Card(100)):
            pass

    with pytest.raises(LaunchError, match=r"\(gpu0 free\) is under the reserve") as caught:
        anyio.run(level)
    assert caught.value.reason == "memory_floor"


def test_a_build_that_leaves_the_gpu_alone_is_told_of(spec, caplog):
    async def level(gpu_layers, found):
        one = ManagedSpec(spec.model, 2, 64, server=spec.server, program=spec.program,
                          gpu_layers=gpu_layers)  # fmt: skip
        async with opened(one, found):
            pass
        return "a build without CUDA?" in caplog.text

    assert not anyio.run(level, 0, Card(4000))
    assert anyio.run(level, None, Card(4000))


def on(found):
    return OnGpus(GpuUse((0,)), None, found)


def test_what_the_gpu_lost_is_part_of_what_an_engine_takes(tmp_path):
    found = Card(4000)
    before = on(found).free_bytes()
    taken = Footprint(Files(tmp_path), (), 1000, gpu=lambda: on(found).taken_bytes(before))
    found.free_mib = 3000
    assert taken.taken_bytes(400) == 600 + 1000 * MIB
    found.free_mib = None
    assert taken.taken_bytes(400) is None
    assert Footprint(Files(tmp_path), (), 1000).taken_bytes(400) == 600


def test_memory_of_the_gpu_that_does_not_come_back_is_told(caplog):
    found = Card(3000)

    def back(before_mib, wait_s=0.0):
        before = None if before_mib is None else before_mib * MIB
        return anyio.run(lambda: on(found).came_back(before, wait_s=wait_s))

    late = back(4000)
    assert (late.complete, late.shortfall_bytes) == (False, 1000 * MIB)
    assert back(3000).complete
    assert back(None) is None
    found.free_mib = None
    assert back(4000) is None


def test_memory_that_a_driver_gives_back_late_is_waited_for():
    found = Card(3000)

    async def slowly():
        began = time.monotonic()

        async def give_back():
            await anyio.sleep(0.15)
            found.free_mib = 4000

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(give_back)
            back = await on(found).came_back(4000 * MIB, wait_s=5.0)
        return back, time.monotonic() - began

    back, took_s = anyio.run(slowly)
    assert back.complete
    assert 0.15 <= took_s < 3.0


def test_a_shortfall_is_logged_with_its_contender(spec, caplog):
    async def level():
        found = Card(4000)
        async with opened(spec, found):
            found.free_mib = 3900

    with caplog.at_level(logging.WARNING):
        anyio.run(level)
    assert "model: 100 MiB of GPU memory did not come back within 5 s" in caplog.text
