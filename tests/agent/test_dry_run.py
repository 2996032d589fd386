"""What a dry run checks, and what a contender may ask of its model."""

from __future__ import annotations

import json

import anyio
import pytest

from edgesweep_agent import memory
from edgesweep_agent.cli.preview import show_plan
from edgesweep_agent.core import rope
from edgesweep_agent.core.gguf import read_header
from edgesweep_agent.errors import SettingsError, UsageError
from edgesweep_agent.plan import ManagedSpec, SweepPlan
from edgesweep_agent.sweep.box import Box
from edgesweep_agent.sweep.trained import check_context
from random_gguf import Recipe, write

MIB = 2**20
TRAINED = 2048


def box(root, available_bytes):
    """A box with so much memory, no GPU, and no other limit; ``None``: it does not say."""
    if available_bytes is not None:
        (root / "proc").mkdir(exist_ok=True)
        lines = (f"{name}: {available_bytes >> 10} kB" for name in ("MemTotal", "MemAvailable"))
        (root / "proc/meminfo").write_text("\n".join(lines))
    return Box(root=root)


@pytest.fixture
def dry(tmp_path, capsys):
    """What a dry run of one contender prints, on a box with so much memory."""

    def told(spec, available_bytes=200 * MIB, **settings):
        plan = SweepPlan((spec,), levels=(1, 2, 64), reserve="64MiB", **settings)
        anyio.run(show_plan, plan, box(tmp_path, available_bytes))
        return capsys.readouterr().out

    return told


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    recipe = Recipe(layers=8, kv_heads=4, context=TRAINED)
    return write(tmp_path_factory.mktemp("models") / "model.gguf", recipe)


def test_levels_are_admitted_or_skipped_with_the_arithmetic(model, dry):
    spec = ManagedSpec(model, None, TRAINED, name="mine")
    told = dry(spec, policy="per_level")
    lines = told.splitlines()
    at = lines.index("contender mine (started by us)")
    assert [line.split(":")[:2] for line in lines[at + 1 : at + 4]] == [
        ["  level 1", " admit"],
        ["  level 2", " admit"],
        ["  level 64", " skip"],
    ]
    assert "KV 64 x 2,048 x " in lines[at + 3]
    assert "MemAvailable 200 MiB - reserve 64 MiB" in lines[at + 3]


def test_one_configuration_for_all_levels_is_told_once_and_how_it_was_sized(model, dry):
    told = dry(ManagedSpec(model, 64, TRAINED))
    assert "  levels 1, 2: admit: " in told
    assert "  level 64: skip: " in told
    assert " of 64 slots: " in told


@pytest.mark.parametrize(
    ("spec", "available_bytes", "why"),
    [({"as_shipped": True}, 200 * MIB, "as_shipped"), ({}, None, "what is free here is unknown")],
)
def test_what_cannot_be_judged_is_said(model, spec, available_bytes, why, dry):
    sizes = () if spec else (2, TRAINED)
    told = dry(ManagedSpec(model, *sizes, **spec), available_bytes)
    assert f"memory cannot be judged: {why}" in told


def test_a_model_that_is_missing_is_named(tmp_path, dry, capsys):
    with pytest.raises(UsageError, match=r"contender gone: model \S+none\.gguf is not there"):
        dry(ManagedSpec(tmp_path / "none.gguf", 2, 64, name="gone"))
    assert capsys.readouterr().out == ""


def test_what_the_server_would_refuse_is_refused(model, dry):
    with pytest.raises(SettingsError, match="kv_bytes"):
        dry(ManagedSpec(model, 2, 64, kv_bytes=MIB))


def test_more_context_than_the_model_was_trained_for_is_refused_with_both_numbers(model, dry):
    dry(ManagedSpec(model, 2, TRAINED))
    with pytest.raises(UsageError, match="context_per_request 2049 is more than the 2048 tokens"):
        dry(ManagedSpec(model, 2, TRAINED + 1))


@pytest.mark.parametrize(
    ("flags", "environment"),
    [({"yarn_ext_factor": "1.0"}, {}), ({}, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})],
)
def test_where_positions_are_scaled_it_is_a_warning(model, flags, environment, dry):
    spec = ManagedSpec(model, 2, TRAINED * 2, flags=flags, environment=environment)
    told = dry(spec)
    (name,) = {**flags, **environment}
    assert "warning: context_per_request 4096 is more than the 2048 tokens" in told
    assert name in told


def test_a_folders_config_says_what_it_was_trained_for(tmp_path):
    config = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100,
        "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 1024,
    }  # fmt: skip
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 64)
    spec = ManagedSpec(tmp_path, 2, 4096, engine="vllm", server="vllm")

    def checked(**more):
        (tmp_path / "config.json").write_text(json.dumps(config | more))
        return check_context(spec, memory.model(tmp_path))

    with pytest.raises(UsageError, match="4096 is more than the 1024"):
        checked()
    with pytest.raises(UsageError, match="4096 is more than the 1024"):
        checked(rope_parameters={"rope_type": "default"})
    assert "(yarn)" in checked(rope_scaling={"type": "yarn", "factor": 4.0})
    assert checked(max_position_embeddings=4096) == ""


def test_a_files_own_scaling_is_seen(tmp_path):
    extra = {"llama.rope.scaling.type": "yarn"}
    assert rope.of_gguf({"general.architecture": "llama", **extra}) == "yarn"
    assert rope.of_gguf({"general.architecture": "llama", "llama.rope.scaling.type": "none"}) == ""
    path = write(tmp_path / "m.gguf", Recipe(context=TRAINED))
    header = read_header(lambda at, n: path.read_bytes()[at : at + n], path.stat().st_size)
    assert rope.of_gguf(header.metadata) == ""
