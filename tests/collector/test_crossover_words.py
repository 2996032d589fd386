from __future__ import annotations

from collections import Counter

import pytest

from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.evidence import rounded
from edgesweep_collector.core.flags import Flag
from edgesweep_collector.core.labels import Kind
from edgesweep_collector.core.problem import Limit, Problem, Unit
from edgesweep_collector.core.words import CAVEATS, words

RATIO = {"A": 0.8, "B": 1.25, "T": 1.01, "-": None}


def said(labels, count=1, **options):
    levels = [2**k for k in range(len(labels))]
    units = tuple(
        Unit(
            f"u{k}",
            dict.fromkeys(levels, (100.0,)),
            {
                level: None if RATIO[label] is None else (100 * RATIO[label] * (1 + k / 100),)
                for level, label in zip(levels, labels, strict=True)
            },
        )
        for k in range(count)
    )
    problem = Problem("output tok/s", True, units, "llama.cpp", "vLLM", **options)
    return words(problem, estimate(problem))


SENTENCES = [
    # labels, options, what the sentence must hold
    ("AAB", {}, ["vLLM overtakes llama.cpp at about 2.8", "use llama.cpp up to 2, vLLM from 4"]),
    ("A-B", {}, ["somewhere between 1 and 4", "no valid result of vLLM at 2"]),
    ("BB", {}, ["vLLM leads llama.cpp at every level measured, by 25 %", "measured 1 to 2"]),
    ("BTTB", {}, ["vLLM leads llama.cpp at 1 and 8 (tied at 2 and 4), by 25 %"]),
    ("BB-", {}, ["leads llama.cpp wherever both have a valid result", "use vLLM from 1 to 2"]),
    ("TB", {}, ["tie at first, then vLLM leads from about", "use vLLM from 2, either at 1"]),
    ("BT", {}, ["then ties with llama.cpp", "use vLLM up to 1, either at 2"]),
    ("TTBB", {}, ["use vLLM from 3, either from 1 to 2"]),
    ("BTT", {}, ["use vLLM up to 1, either from 2 to 4"]),
    ("TT", {}, ["within 5 % of each other"]),
    ("ABA", {}, ["changes hands more than once: to vLLM at 1.4, to llama.cpp at 2.8"]),
    ("B", {}, ["cannot be compared yet", "two are needed"]),
    (
        "B",
        {"limit_b": Limit(1, 2)},
        ["vLLM leads by 25 % up to its memory limit (ran at 1, failed at 2)", "llama.cpp from 2"],
    ),
    ("AB", {"limit_b": Limit(2, 4)}, ["to llama.cpp by memory above 2"]),
    ("AB", {"limit_a": Limit(2, 4)}, ["memory stops llama.cpp: ran at 2, failed at 4"]),
    ("TT", {"limit_b": Limit(2, 4)}, ["tie until memory stops vLLM", "use llama.cpp"]),
]


@pytest.mark.parametrize(("labels", "options", "parts"), SENTENCES)
def test_the_sentence_says_what_to_do(labels, options, parts):
    sentence = said(labels, **options)
    assert all(part in sentence for part in parts), sentence
    assert sentence.endswith(".")
    assert "output tok/s (higher is better)" in sentence


@pytest.mark.parametrize(
    ("count", "scope"),
    [(1, "this unit:"), (2, "this unit pair:"), (3, "this hardware class:")],
)
def test_a_class_is_spoken_of_from_three_units_on(count, scope):
    assert scope in said("BBB", count)


def test_a_class_answer_gives_interval_units_range_and_tie_band():
    sentence = said("AAB", 3)
    for part in (
        "95 % interval",
        "3 units",
        "measured 1 to 4",
        "within 5 % of each other from",
        "per unit",
    ):
        assert part in sentence
    assert "one unit speaks for itself" not in sentence


def test_many_units_are_told_as_a_range():
    assert "per unit 2.5 to 2.8" in said("AAB", 9)


def test_sessions_are_not_units():
    sentence = said("AAB", 3, unit_kind="session")
    assert "this unit:" in sentence
    assert "3 sessions" in sentence
    assert CAVEATS[Flag.SINGLE_DEVICE] in sentence


def test_every_flag_has_a_caveat_and_every_kind_a_distinct_name():
    assert set(CAVEATS) == set(Flag)
    assert max(Counter(kind.value for kind in Kind).values()) == 1


@pytest.mark.parametrize(
    ("value", "text"), [(5.657, "5.7"), (19.24, "19"), (128.4, "130"), (4.0, "4"), (1e6, "1000000")]
)
def test_concurrencies_are_told_to_two_figures(value, text):
    assert rounded(value) == text
