from __future__ import annotations

import copy

import pytest

from edgesweep_collector.core.problem import Limit
from edgesweep_collector.core.problem_json import ProblemError, read_problems

GOOD = {
    "metric": "tok/s",
    "higher_is_better": True,
    "cells": {"d1": {"A": {"1": [1.0], "4": None}, "B": {"1": 2}}},
}

COMPLAINTS = [
    # where it is put            what is put there     complaint
    (
        ("cells", "d1", "A", "4"),
        "x",
        'cells.d1.A.4: expected a number, or null for a level that failed, got "x"',
    ),
    (("cells", "d1", "A", "4"), ["x"], "cells.d1.A.4[0]: expected a number (of a"),
    (("cells", "d1", "A", "4"), True, "cells.d1.A.4: expected a number, or null"),
    (("cells", "d1", "A", "4"), [], "cells.d1.A.4: expected repeats, got []"),
    (("cells", "d1", "A", "4"), 10**400, "cells.d1.A.4: expected a number, or null"),
    (("cells", "d1", "A", "4"), float("nan"), "cells.d1.A.4: expected a number, or null"),
    (("cells", "d1", "A", "0"), [1], "cells.d1.A: expected a concurrency"),
    (("cells", "d1", "A", "1.5"), [1], "cells.d1.A: expected a concurrency"),
    (("cells", "d1", "A", "9" * 5000), [1], "cells.d1.A: expected a concurrency"),
    (("cells", "d1", "A", "01"), [1], "cells.d1.A.01: the level 1 is given twice"),
    (("cells", "d1", "C"), {}, "cells.d1.C: unknown key; known are A, B"),
    (("cells", "d1"), None, "cells.d1: expected an object, got null"),
    (("cells",), {}, "cells: expected at least one unit"),
    (("metric",), "", "metric: expected a text"),
    (("higher_is_better",), "yes", 'higher_is_better: expected true or false, got "yes"'),
    (("equivalence_margin",), 0, "equivalence_margin: expected a share above 0"),
    (("equivalence_margn",), 0.1, "equivalence_margn: unknown key"),
    (("units",), "boxes", 'units: expected "devices" or "sessions", got "boxes"'),
    (("capacity",), {"B": {"last_ok": 1}}, "capacity.B.first_failed: missing"),
    (
        ("capacity",),
        {"B": {"last_ok": 2, "first_failed": 2}},
        "capacity.B.first_failed: expected more than last_ok (2), got 2",
    ),
    (("capacity",), {"B": {"last_ok": -1, "first_failed": 2}}, "capacity.B.last_ok: expected"),
]


def changed(path, value):
    document = copy.deepcopy(GOOD)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


def complaint(document):
    with pytest.raises(ProblemError) as caught:
        read_problems(document)
    return str(caught.value)


def test_reads_repeats_single_values_failures_and_defaults():
    (problem,) = read_problems(GOOD)
    assert problem.units[0].a == {1: (1.0,), 4: None}
    assert problem.units[0].b == {1: (2.0,)}
    assert (problem.engine_a, problem.margin, problem.unit_kind) == ("A", 0.05, "device")
    assert problem.limit_b is None


def test_reads_limits_names_and_sessions():
    (problem,) = read_problems(
        {
            **GOOD,
            "capacity": {"B": {"last_ok": 0, "first_failed": 1}},
            "engines": {"A": "llama.cpp", "B": "vLLM"},
            "units": "sessions",
        }
    )
    assert problem.limit_b == Limit(0, 1)
    assert problem.engine("B") == "vLLM"
    assert problem.unit_kind == "session"


@pytest.mark.parametrize(("path", "value", "expected"), COMPLAINTS)
def test_every_complaint_names_the_key(path, value, expected):
    assert complaint(changed(path, value)).startswith(expected)


def test_the_key_of_a_vector_begins_with_its_index():
    broken = changed(("cells", "d1", "A", "4"), "x")
    assert complaint({"vectors": [GOOD, broken]}).startswith("vectors[1].cells.d1.A.4: ")


@pytest.mark.parametrize("document", [None, [], 3, "x"])
def test_a_document_that_is_no_object_is_refused(document):
    assert complaint(document).startswith("expected an object, got ")


def test_a_file_without_problems_is_refused():
    assert (
        complaint({"vectors": []}) == "vectors: expected a list with at least one problem, got []"
    )
