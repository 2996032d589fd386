"""The published vectors: every expected key, and the two cases from the field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.problem import Problem, Unit
from edgesweep_collector.core.problem_json import read_problems

FIXTURES = Path(__file__).parents[1] / "fixtures"
DOCUMENT = json.loads((FIXTURES / "crossover_vectors.json").read_text("utf-8"))
PROBLEMS = dict(zip((v["id"] for v in DOCUMENT["vectors"]), read_problems(DOCUMENT), strict=True))
CASES = {c["id"]: c for c in json.loads((FIXTURES / "cases/compare.json").read_text("utf-8"))}
CURVES = CASES["CMP-03"]["input"]["variants"]
EXPECTED = CASES["CMP-03"]["expected"]


def close(got, want, tolerance):
    if isinstance(want, list):
        return len(got) == len(want) and all(
            close(g, w, tolerance) for g, w in zip(got, want, strict=True)
        )
    if isinstance(want, float):
        return got == pytest.approx(want, rel=tolerance, abs=1e-4)
    return got == want


@pytest.mark.parametrize("vector", DOCUMENT["vectors"], ids=lambda v: v["id"])
def test_vector(vector):
    got = estimate(PROBLEMS[vector["id"]]).as_json()
    wrong = {
        key: (got[key], want)
        for key, want in vector["expected"].items()
        if not close(got[key], want, vector["relative_tolerance"])
    }
    assert not wrong


def curves(variant):
    case = CURVES[variant]
    a, b = case.get("A", case.get("A_trials")), case.get("B", case.get("B_trials"))
    a, b = (
        {
            level: None if cell is None else tuple(cell) if isinstance(cell, list) else (cell,)
            for level, cell in zip(case["levels"], side, strict=True)
        }
        for side in (a, b)
    )
    return estimate(Problem("tok/s", True, (Unit("d", a, b),)))


def test_a_plain_crossing_is_read_off_the_log_ratio():
    figures = curves("a_plain").figures
    assert figures.crossover == pytest.approx(EXPECTED["a_plain"]["estimate"], abs=5e-4)
    assert list(figures.bracket) == EXPECTED["a_plain"]["interval"]


def test_a_failed_level_leaves_the_bracket_and_no_estimate():
    answer = curves("b_missing")
    assert answer.verdict.name == "CROSSOVER_A_TO_B"
    assert answer.figures.crossover is None
    assert answer.figures.tie_band is None
    assert list(answer.figures.bracket) == EXPECTED["b_missing"]["interval"]
    assert list(answer.figures.proven_between) == EXPECTED["b_missing"]["interval"]
    assert answer.failed_b == (4,)
    assert answer.as_json()["crossings"] == [[None, "A_TO_B"]]
    assert "GAP_IN_BRACKET" in answer.as_json()["flags"]


def test_no_crossing_names_the_winner_and_no_interval():
    answer = curves("c_never")
    assert answer.verdict.name == f"{EXPECTED['c_never']['winner_all_levels']}_DOMINATES"
    assert answer.figures.bracket is None
    assert answer.crossings == ()


def test_several_crossings_are_all_listed():
    answer = curves("d_several")
    assert answer.verdict.name == "MULTIPLE_CROSSINGS"
    assert [list(c.bracket) for c in answer.crossings] == EXPECTED["d_several"]["intervals"]
    assert answer.figures.crossover is None


def test_noise_leaves_a_level_unresolved_and_widens_what_is_proven():
    answer = curves("e_noise")
    assert answer.labels == "AUB"
    assert list(answer.figures.proven_between) == EXPECTED["e_noise"]["interval"]
    assert answer.figures.ci95 is not None
