from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgesweep_collector.cli import commands
from programs import invoke

VECTORS = Path(__file__).parents[1] / "fixtures" / "crossover_vectors.json"


def run(*arguments):
    return invoke(commands.PROGRAM.run, ["crossover", *arguments])


def strict(text):
    def refuse(name):
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def one_value(text):
    head = '{"metric": "m", "higher_is_better": true, '
    return head + '"cells": {"d": {"A": {"4": ' + text + '}, "B": {"4": 1}}}}'


def test_a_file_of_vectors_answers_each_by_its_id():
    result = run(VECTORS, "--json")
    assert result.exit_code == 0
    answers = strict(result.stdout)["vectors"]
    assert [a["id"] for a in answers] == [f"V{k:02}" for k in range(1, 13)]
    assert answers[0]["verdict"] == "CROSSOVER_A_TO_B"
    assert answers[0]["words"].startswith("aggregate decode tok/s")


def test_one_problem_answers_with_one_object(tmp_path):
    problem = json.loads(VECTORS.read_text("utf-8"))["vectors"][8]
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(problem), "utf-8")
    answer = strict(run(file, "--json").stdout)
    assert answer["id"] == "V09"
    assert answer["capacity_crossover"] == [1, 2]


def test_without_json_people_get_a_sentence_and_a_table():
    result = run(VECTORS)
    assert result.exit_code == 0
    assert "V12: three units" in result.stdout
    assert "in flight" in result.stdout
    assert "flags: SINGLE_DEVICE, NO_REPEATS" in result.stdout
    assert "nan" not in result.stdout


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"vectors": [{}]}', "vectors[0].metric: missing"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"metric": NaN}', "metric: expected a text, got NaN"),
        (one_value("NaN"), "cells.d.A.4: expected a number, or null for a level that failed, "),
        (one_value("NaN"), "finite and at most 1e+300, got NaN"),
        (one_value("1e999"), "finite and at most 1e+300, got Infinity"),
        (one_value("9" * 5000), "finite and at most 1e+300"),
        (one_value('[1, "x"]'), "cells.d.A.4[1]: expected a number"),
        (one_value("1").replace('"4"', '"0.5"'), 'as key, got "0.5"'),
        ('{"metric": "a", "metric": "b"}', 'the key "metric" is given twice'),
        ("\udcff", "not UTF-8"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_exit_2(tmp_path, text, complaint):
    file = tmp_path / "bad.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    result = run(file, "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"edgesweep-collector: {file}: ")
    assert complaint in result.stderr


def test_an_unreadable_file_is_named(tmp_path):
    for file in (tmp_path / "absent.json", tmp_path):
        result = run(file)
        assert result.exit_code == 2
        assert str(file) in result.stderr
