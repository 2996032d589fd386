"""What is started for a plan, and what of it is the contender's identity."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgesweep_agent.core.helptext import fit, flag_groups, knows
from edgesweep_agent.errors import SettingsError
from edgesweep_agent.plan import ManagedSpec, Speculative
from edgesweep_agent.servers.base import Surroundings
from edgesweep_agent.servers.registry import SERVERS

GIB = 1 << 30
OLD_HELP = """
-t,    --threads N                      number of threads
-c,    --ctx-size N                     size of the prompt context
-b,    --batch-size N                   logical maximum batch size
-ub,   --ubatch-size N                  physical maximum batch size
-fa,   --flash-attn                     enable Flash Attention (default: disabled)
-ctk,  --cache-type-k TYPE              KV cache data type for K
-ctv,  --cache-type-v TYPE              KV cache data type for V
-np,   --parallel N                     number of parallel sequences to decode
--no-mmap                               do not memory-map model
-ngl,  --gpu-layers, --n-gpu-layers N   number of layers to store in VRAM
-lv,   --verbosity, --log-verbosity N   Set the verbosity threshold
--metrics                               enable prometheus compatible metrics endpoint
--slots                                 enable slots monitoring endpoint
--no-webui                              Disable the Web UI
--spec-type T                           the argument has been removed. use --draft
"""
NEW_HELP = (
    OLD_HELP.replace("--flash-attn  ", "--flash-attn [on|off|auto]").replace(
        "the argument has been removed. use --draft", "types of speculative decoding"
    )
    + """
--load-mode MODE                        model loading mode (default: auto)
                                        - auto: mmap, unless a device does not support it
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max
                                        or --spec-ngram-mod-n-max
--spec-draft-n-max N                    number of tokens to draft
--spec-draft-model, -md, --model-draft FNAME
                                        draft model for speculative decoding
--fit [on|off]                          whether to adjust unset arguments
--kv-unified, -kvu, --no-kv-unified, -no-kvu
                                        use single unified KV buffer
--cache-ram N, --cache-prompt, --no-cache-prompt
--ctx-checkpoints N                     checkpoints
--cache-prompt, --no-cache-prompt       whether to enable prompt caching
--ui, --webui, --no-ui, --no-webui      whether to enable the Web UI
--offline                               Offline mode
"""
)


def spec(server="llama-server", **keys):
    engine = "vllm" if server == "vllm" else "llama.cpp"
    keys = {"slots": 4, "context_per_request": 2048, "engine": engine, **keys}
    return ManagedSpec(Path("/models/m.gguf"), server=server, **keys)


def shipped(server, **keys):
    return spec(server, slots=None, context_per_request=None, as_shipped=True, **keys)


def plan(asked, **around):
    return SERVERS[asked.server].plan(asked, 4711, Surroundings(**around))


def options(command):
    """Flags with their values, a switch with ``None``."""
    found = {}
    for argument in command.arguments:
        if argument.startswith("--") or (argument.startswith("-") and not argument[1:].isdigit()):
            last, found[argument] = argument, None
        else:
            found[last] = argument
    return found


def test_llama_server_is_told_everything_that_could_differ():
    command = plan(spec(threads=2, program=Path("/opt/llama-server")), help_text=NEW_HELP)
    assert command.argv[0] == "/opt/llama-server"
    assert command.dropped == ()
    assert options(command) == {
        "--model": "/models/m.gguf",
        "--alias": "m",
        "--host": "127.0.0.1",
        "--port": "4711",
        "--parallel": "4",
        "--ctx-size": "8192",
        "--no-kv-unified": None,
        "--n-gpu-layers": "999",
        "--fit": "off",
        "--batch-size": "2048",
        "--ubatch-size": "512",
        "--cache-type-k": "f16",
        "--cache-type-v": "f16",
        "--threads": "2",
        "--no-cache-prompt": None,
        "--cache-ram": "0",
        "--ctx-checkpoints": "0",
        "--metrics": None,
        "--slots": None,
        "--verbosity": "4",
        "--no-ui": None,
        "--offline": None,
    }
    assert command.settings == {
        "batch": "2048",
        "gpu_layers": "all",
        "kv_dtype": "f16",
        "prefix_cache": "off",
        "sampler": "greedy",
        "server": "llama-server",
        "threads": "2",
        "ubatch": "512",
    }
    assert list(command.settings) == sorted(command.settings)


def test_what_an_old_build_does_not_know_is_dropped_and_recorded():
    command = plan(spec(), help_text=OLD_HELP)
    assert command.dropped == (
        "--no-kv-unified",
        "--fit off",
        "--no-cache-prompt",
        "--cache-ram 0",
        "--ctx-checkpoints 0",
        "--offline",
    )
    assert command.settings["dropped"].startswith("--cache-ram 0, --ctx-checkpoints 0, --fit off")
    assert "--no-webui" in command.arguments
    assert "--fit" not in command.arguments


@pytest.mark.parametrize(
    ("help_text", "expected"),
    [
        (OLD_HELP, ("--no-mmap",)),
        (NEW_HELP, ("--load-mode", "none")),
        ("", ("--load-mode", "none")),
    ],
)
def test_a_setting_is_said_in_the_words_of_the_build(help_text, expected):
    for asked, around in (
        (spec(flags={"--no-mmap": ""}), {}),
        (spec(), {"gpu": "unified"}),
    ):
        command = plan(asked, help_text=help_text, **around)
        assert set(expected) <= set(command.arguments)
        assert command.arguments.count(expected[0]) == 1


@pytest.mark.parametrize(("help_text", "value"), [(OLD_HELP, None), (NEW_HELP, "on"), ("", "on")])
def test_a_quantized_kv_cache_needs_flash_attention(help_text, value):
    found = options(plan(spec(kv_dtype="q8_0"), help_text=help_text))
    assert found["--cache-type-v"] == "q8_0"
    assert found["--flash-attn"] == value
    assert "--flash-attn" not in options(plan(spec(kv_dtype="bf16"), help_text=help_text))


def test_a_plans_own_flag_stands_for_ours_under_any_of_its_names():
    command = plan(spec(flags={"-ub": "256", "--swa-full": ""}), help_text=NEW_HELP)
    assert "--ubatch-size" not in command.arguments
    assert command.arguments[-3:] == ("-ub", "256", "--swa-full")
    assert command.settings["flags.-ub"] == "256"
    assert command.settings["flags.--swa-full"] == "set"


@pytest.mark.parametrize(
    ("method", "model", "expected"),
    [
        ("draft-mtp", None, {"--spec-draft-n-max": "5"}),
        (
            "draft-simple",
            Path("/d.gguf"),
            {"--spec-draft-n-max": "5", "--spec-draft-model": "/d.gguf"},
        ),
        ("ngram-simple", None, {"--spec-ngram-simple-size-m": "5"}),
        ("ngram-mod", None, {"--spec-ngram-mod-n-max": "5"}),
    ],
)
def test_speculative_decoding_is_said_by_method(method, model, expected):
    command = plan(spec(speculative=Speculative(method, model, 5)))
    assert {"--spec-type": method, **expected}.items() <= options(command).items()
    with_model = " with d.gguf" if model else ""
    assert command.settings["speculative"] == f"{method} x 5{with_model}"


def test_a_build_without_speculative_decoding_is_not_measured_as_if_it_had_it():
    with pytest.raises(SettingsError, match="no --spec-type"):
        plan(spec(speculative=Speculative("ngram-simple")), help_text=OLD_HELP)


def test_xllamacpp_is_set_by_attributes():
    asked = spec(
        "xllamacpp",
        threads=1,
        kv_dtype="q8_0",
        prefix_cache=True,
        flags={"cpuparams.poll": "0"},
        speculative=Speculative("ngram-simple", None, 8),
    )
    command = plan(asked, help_text="n_parallel n_ctx fit_params")
    assert command.argv[:3] == (sys.executable, "-m", "edgesweep_agent.servers.xllamacpp_serve")
    kept = {argument for argument in command.arguments if argument.startswith("--set=")}
    assert kept == {
        "--set=n_parallel=4",
        "--set=n_ctx=8192",
        "--set=fit_params=false",
        "--set=cpuparams.poll=0",
    }
    assert "cache_ram_mib=0" in command.dropped
    all_of_them = set(plan(asked).arguments)
    assert {
        "--set=cache_prompt=true",
        "--set=cache_type_v=q8_0",
        "--set=flash_attn_type=enabled",
        "--set=cpuparams.n_threads=1",
        "--set=speculative.types=ngram-simple",
        "--set=speculative.ngram_simple.size_m=8",
        "--set=verbosity=4",
    } <= all_of_them


@pytest.mark.parametrize("server", ["xllamacpp", "llama-server", "vllm"])
def test_as_shipped_leaves_everything_to_the_engine(server):
    command = plan(shipped(server, environment={"X": "1"}), gpu="unified")
    text = " ".join(command.argv)
    for word in ("ctx", "cache", "batch", "kv", "fit", "memory", "prefix", "generation"):
        assert word not in text
    assert command.settings == {
        "as_shipped": "yes",
        "environment.X": "1",
        "sampler": "greedy",
        "server": server,
    }
    assert command.environment["X"] == "1"


def test_vllm_gets_a_pool_for_its_slots_and_no_more():
    asked = spec("vllm", slots=2, context_per_request=500, threads=2, kv_dtype="bf16")
    around = {"kv_bytes_per_token": 23040, "total_bytes": 24 * GIB, "weights_bytes": 2 * GIB}
    command = plan(asked, **around)
    pool = (2 * 4 + 1) * 128 * 23040
    assert command.argv[:3] == ("python3", "-m", "vllm.entrypoints.openai.api_server")
    assert options(command) == {
        "--model": "/models/m.gguf",
        "--served-model-name": "m.gguf",
        "--host": "127.0.0.1",
        "--port": "4711",
        "--max-model-len": "500",
        "--max-num-seqs": "2",
        "--max-num-batched-tokens": "1000",
        "--kv-cache-dtype": "bfloat16",
        "--no-enable-prefix-caching": None,
        "--generation-config": "vllm",
        "--kv-cache-memory-bytes": str(pool),
        "--gpu-memory-utilization": "0.13",
        "--enable-prompt-tokens-details": None,
    }
    assert command.environment == {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0-1",
    }
    assert command.settings["kv_bytes"] == str(pool)
    assert "0.13" not in command.settings.values()


def test_vllm_of_other_builds_and_places():
    old = "--max-model-len N\n--gpu-memory-utilization F\n"
    command = plan(spec("vllm", kv_bytes=3 * GIB - 1, threads=1), help_text=old)
    assert command.environment["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert command.environment["VLLM_CPU_OMP_THREADS_BIND"] == "0"
    assert "--gpu-memory-utilization" in command.arguments
    inside = plan(spec("vllm", threads=3), host="0.0.0.0", gpu="discrete")
    assert "VLLM_SERVER_DEV_MODE" not in inside.environment
    assert inside.environment["OMP_NUM_THREADS"] == "3"
    assert not {"--gpu-memory-utilization", "--kv-cache-memory-bytes"} & set(inside.arguments)
    with pytest.raises(SettingsError, match="kv_bytes is missing"):
        plan(spec("vllm"), gpu="unified")


def test_vllm_speculative_and_prefix_cache():
    asked = spec("vllm", kv_bytes=GIB, prefix_cache=True, speculative=Speculative("ngram"))
    found = options(plan(asked))
    assert found["--speculative-config"] == '{"method": "ngram", "num_speculative_tokens": 3}'
    assert "--enable-prefix-caching" in found
    assert plan(asked).settings["prefix_cache"] == "on"


def test_an_image_that_knows_its_program_gets_arguments_alone():
    image = {"launcher": "container", "image": "engine:1"}
    assert plan(spec("llama-server", **image)).program == ()
    assert plan(spec("vllm", kv_bytes=GIB, **image)).program == ()
    assert plan(spec("llama-server", program=Path("/app/x"), **image)).program == ("/app/x",)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (spec("vllm", engine="llama.cpp"), 'write engine = "vllm"'),
        (spec("llama-server", engine="vllm"), 'write engine = "llama.cpp"'),
        (spec("vllm", ubatch=512), 'server "vllm" has no ubatch: a scheduler'),
        (spec("vllm", gpu_layers=3), "has no gpu_layers"),
        (spec("vllm", kv_dtype="q8_0"), "vLLM has f16, bf16, fp8"),
        (spec("llama-server", kv_bytes=GIB), "has no kv_bytes"),
        (spec("llama-server", kv_dtype="fp8"), "llama.cpp has f32, f16"),
        (spec("llama-server", batch=128, ubatch=256), "ubatch 256 is more than batch 128"),
        (spec("llama-server", slots=None), "slots is missing"),
        (spec("llama-server", flags={"--port": "1"}), "flags: --port is the agent's own"),
        (spec("llama-server", flags={"swa-full": ""}), 'write "--swa-full"'),
        (spec("vllm", flags={"--uds": "/x"}), "flags: --uds is the agent's own"),
        (
            spec("llama-server", flags={"--api-key": "x"}),
            "--api-key: settings go into",
        ),
        (spec("vllm", environment={"HF_TOKEN": "x"}), "HF_TOKEN: settings go into every record"),
        (spec("xllamacpp", flags={"--poll": "0"}), "attributes of its CommonParams"),
        (spec("xllamacpp", flags={"port": "1"}), "the agent's own"),
        (spec("xllamacpp", launcher="container", image="e:1"), 'write server = "llama-server"'),
        (shipped("llama-server", batch=1), "as_shipped leaves batch to the engine"),
        (shipped("vllm", prefix_cache=True), "as_shipped leaves prefix_cache to the engine"),
    ],
)
def test_what_a_server_cannot_do_is_refused(asked, says):
    with pytest.raises(SettingsError, match=says.replace("(", r"\(")):
        plan(asked)


def test_flags_that_only_look_like_secrets_are_taken():
    asked = spec("vllm", kv_bytes=GIB, flags={"--max-num-scheduled-tokens": "64"})
    assert "--max-num-scheduled-tokens" in plan(asked).arguments


@pytest.mark.parametrize(
    ("server", "text", "version"),
    [
        ("llama-server", "version: 10573 (3f545becc)\nbuilt with cc", "b10573 (3f545becc)"),
        ("llama-server", "segmentation fault", ""),
        ("vllm", "Triton is installed.\nvllm 0.32.0\n", "0.32.0"),
        ("vllm", "No module named vllm", ""),
        ("xllamacpp", "xllamacpp 2026.10.11549\n", "xllamacpp 2026.10.11549"),
        ("xllamacpp", "ModuleNotFoundError", ""),
    ],
)
def test_versions_are_read(server, text, version):
    assert SERVERS[server].read_version(text) == version


def test_a_help_text_is_read_as_people_write_it():
    groups = flag_groups(NEW_HELP)
    assert frozenset({"-ub", "--ubatch-size"}) in groups
    assert frozenset({"--spec-draft-model", "-md", "--model-draft"}) in groups
    assert not knows("--draft-max", NEW_HELP)
    assert knows("--spec-draft-n-max", NEW_HELP)
    argparse = (
        "  --enable-x, --no-enable-x\n                 (default: True)\n  --kv-dtype {auto,fp8}\n"
    )
    assert flag_groups(argparse) == (
        frozenset({"--enable-x", "--no-enable-x"}),
        frozenset({"--kv-dtype"}),
    )
    assert fit([(("--y", "1"),)], argparse).dropped == ("--y 1",)
    assert fit([(("--y", "1"),)], "Segmentation fault").arguments == ("--y", "1")
