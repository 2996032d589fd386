"""What a sweep may try on a box, judged before anything is started."""

from __future__ import annotations

import json
from dataclasses import dataclass

import anyio
import msgspec
import pytest

from edgesweep_agent import memory
from edgesweep_agent.core.available import Available, CgroupMemory
from edgesweep_agent.core.verdict import LlamaCpp, client_bytes, judge
from edgesweep_agent.plan import AttachedSpec, ManagedSpec, SweepPlan
from edgesweep_agent.servers.base import Surroundings
from edgesweep_agent.servers.registry import SERVERS
from edgesweep_agent.sweep.admission import admit, needed_in_cache
from random_gguf import Recipe, write

MIB, GIB = 2**20, 2**30
CONTEXT = 4096
LEVELS = (1, 2, 4, 8, 16)


@dataclass
class FixedBox:
    """A box with so much memory, and no GPU."""

    available_bytes: int | None
    gpu: str = "none"

    def available(self, *, reused_bytes):
        self.reused_bytes = reused_bytes
        return Available(GIB, self.available_bytes, "MemAvailable", ())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write(tmp_path_factory.mktemp("models") / "model.gguf", Recipe(layers=8, kv_heads=4))


def needed(model, slots, replicas=1):
    """Bytes of so many slots, by the same arithmetic, with the load generator's share."""
    terms = LlamaCpp(slots, CONTEXT).needs(memory.model(model))
    return sum(size for _, size in terms) + client_bytes(slots * replicas) // replicas


def admitted(spec, available_bytes, *, slots_before=None, levels=LEVELS, **settings):
    plan = SweepPlan((spec,), levels=levels, reserve="64MiB", **settings)
    box = FixedBox(available_bytes)
    return anyio.run(lambda: admit(spec, plan, levels, box, slots_before=slots_before))


def room_for(model, slots, replicas=1):
    """Just enough for so many slots beside the reserve."""
    return replicas * needed(model, slots, replicas) + 64 * MIB


def test_a_configuration_that_fits_is_admitted_as_a_whole(model):
    found = admitted(ManagedSpec(model, 8, CONTEXT), room_for(model, 8))
    assert (found.spec.slots, found.refused, found.sized) == (8, {}, "")
    # Level 16 queues at 8 slots: that is no matter of memory.
    assert set(found.admitted) == set(LEVELS)
    assert {verdict.needed_bytes for verdict in found.admitted.values()} == {needed(model, 8)}


def test_where_fewer_slots_fit_the_record_says_so(model):
    found = admitted(ManagedSpec(model, 16, CONTEXT), room_for(model, 5))
    assert found.spec.slots == 5
    assert set(found.admitted) == {1, 2, 4}
    assert {v.needed_bytes for v in found.admitted.values()} == {needed(model, 5)}
    assert [(level, v.needed_bytes) for level, v in found.refused.items()] == [
        (8, needed(model, 8)),
        (16, needed(model, 16)),
    ]
    assert not any(verdict.admit for verdict in found.refused.values())
    assert found.sized == f"5 of 16 slots: {found.refused[16].text}"


def test_where_not_even_one_request_fits_everything_is_refused(model):
    spec = ManagedSpec(model, 16, CONTEXT)
    found = admitted(spec, room_for(model, 1) - 1)
    assert (found.spec, found.admitted, set(found.refused)) == (spec, {}, set(LEVELS))
    assert admitted(spec, room_for(model, 1)).spec.slots == 1


def test_a_later_session_has_the_same_configuration_or_none(model):
    spec = ManagedSpec(model, 16, CONTEXT)
    more = admitted(spec, room_for(model, 9), slots_before=5)
    assert (more.spec.slots, set(more.admitted), set(more.refused)) == (5, {1, 2, 4}, {8, 16})
    # Eight slots would fit by now, the sixteen that were asked for would not.
    assert {v.needed_bytes for v in more.refused.values()} == {needed(model, 16)}
    less = admitted(spec, room_for(model, 4), slots_before=5)
    assert (less.admitted, set(less.refused)) == ({}, set(LEVELS))
    assert {v.needed_bytes for v in less.refused.values()} == {needed(model, 5)}


def test_replicas_share_what_there_is(model):
    spec = ManagedSpec(model, 8, CONTEXT, replicas=2)
    found = admitted(spec, room_for(model, 3, replicas=2))
    assert (found.spec.slots, set(found.admitted), set(found.refused)) == (3, {1, 2, 4}, {8, 16})
    # Level 8 is four requests for each of the two.
    assert found.refused[8].needed_bytes == needed(model, 4, replicas=2)


def test_one_start_a_level_is_judged_level_by_level(model):
    found = admitted(ManagedSpec(model, None, CONTEXT), room_for(model, 4), policy="per_level")
    assert (found.spec.slots, set(found.admitted), set(found.refused)) == (None, {1, 2, 4}, {8, 16})
    assert {level: v.needed_bytes for level, v in (found.admitted | found.refused).items()} == {
        level: needed(model, level) for level in LEVELS
    }


@pytest.mark.parametrize("available_bytes", [None, 0])
def test_what_nobody_can_judge_is_in_neither(model, available_bytes):
    shipped = ManagedSpec(model, as_shipped=True)
    for spec in (shipped, AttachedSpec("http://127.0.0.1:1")):
        found = admitted(spec, available_bytes)
        assert (found.spec, found.admitted, found.refused) == (spec, {}, {})
    unknown = admitted(ManagedSpec(model, 4, CONTEXT), None)
    assert (unknown.spec.slots, unknown.admitted, unknown.refused) == (4, {}, {})


@pytest.fixture
def folder(tmp_path):
    config = {
        "model_type": "llama",
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "intermediate_size": 1536,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "dtype": "bfloat16",
        "tie_word_embeddings": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(256 * MIB)
    return tmp_path


@pytest.mark.parametrize(
    ("context", "kv_bytes", "pool_bytes", "text"),
    [
        (512, None, (2 * 512 + 128) * 23_040, "KV (2 x 512 + 128) x 23,040 B"),
        (600, None, (2 * 640 + 128) * 23_040, "KV 2 x 600"),
        (512, 100 * MIB, 100 * MIB, "KV pool"),
    ],
)
def test_the_pool_that_is_judged_is_the_one_that_vllm_is_told(
    folder, context, kv_bytes, pool_bytes, text
):
    spec = ManagedSpec(folder, 2, context, engine="vllm", server="vllm", kv_bytes=kv_bytes)
    verdict = admitted(spec, 64 * GIB, levels=(1, 2)).admitted[1]
    assert dict(verdict.terms)[text] == pool_bytes
    around = Surroundings(kv_bytes_per_token=23_040, weights_bytes=256 * MIB, total_bytes=64 * GIB)
    arguments = SERVERS["vllm"].plan(spec, 1, around).arguments
    assert arguments[arguments.index("--kv-cache-memory-bytes") + 1] == str(pool_bytes)


@pytest.mark.parametrize(
    ("flags", "gpu", "weights"),
    [
        ({}, "none", 1),
        ({"--threads": "2"}, "none", 1),
        ({"--no-mmap": ""}, "none", 0),
        ({"--load-mode": "none"}, "none", 0),
        ({"load_mode": "none"}, "none", 0),
        ({}, "unified", 0),
        ({}, "discrete", 0),
    ],
)
def test_weights_are_needed_in_the_cache_where_they_are_mapped(model, flags, gpu, weights):
    spec = ManagedSpec(model, 1, CONTEXT, flags=flags)
    libraries = needed_in_cache(spec, 0, gpu)
    assert libraries > 0
    assert needed_in_cache(spec, GIB, gpu) - libraries == weights * GIB
    copying = msgspec.structs.replace(spec, engine="vllm")
    assert needed_in_cache(copying, GIB, gpu) == needed_in_cache(copying, 0, gpu) > 0


def test_what_an_engine_of_this_model_has_left_in_the_cache_is_there_for_the_next(model):
    spec, box = ManagedSpec(model, 1, CONTEXT), FixedBox(GIB)
    weights = memory.model(model).weight_bytes
    anyio.run(lambda: admit(spec, SweepPlan((spec,)), (1,), box))
    assert box.reused_bytes == needed_in_cache(spec, weights, "none") > weights


def test_what_the_cache_has_already_is_not_counted_twice():
    # A cgroup in which an engine has just served the same model, and has ended.
    left = CgroupMemory("c", 512 * MIB, 150 * MIB, 8 * MIB, 92 * MIB)
    assert left.available_bytes() == (512 - 150 + 8) * MIB
    assert left.available_bytes(reused_bytes=92 * MIB) == (512 - 150 + 8 + 92) * MIB
    # No more than there is of it, and nothing of what is not cache.
    assert left.available_bytes(reused_bytes=GIB) == (512 - 50) * MIB


def test_what_is_admitted_counts_the_load_generator(model):
    verdict = admitted(ManagedSpec(model, 4, CONTEXT), 4 * GIB).admitted[1]
    assert dict(verdict.terms)["load generator"] == client_bytes(4)
    alone = judge(
        memory.model(model),
        LlamaCpp(4, CONTEXT),
        available_bytes=GIB,
        reserve_bytes=0,
        limited_by="MemAvailable",
    )
    assert verdict.needed_bytes == alone.needed_bytes + client_bytes(4)
