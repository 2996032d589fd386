from __future__ import annotations

from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.problem import Problem, Unit
from edgesweep_collector.report.text import render_text


def text(a, b, **options):
    problem = Problem("tok/s", True, (Unit("d", a, b),), "llama.cpp", "vLLM", **options)
    return render_text(problem, estimate(problem))


def test_each_level_shows_the_advantage_its_interval_and_who_is_ahead():
    rendered = text(
        {1: (99.0, 101.0), 2: (100.0, 100.0)}, {1: (49.0, 51.0), 2: (2000.0, 2010.0)}, id="X"
    )
    lines = rendered.splitlines()
    assert lines[:2] == ["X", "CROSSOVER_A_TO_B"]
    one, two = (line for line in lines if line.lstrip().startswith(("1 ", "2 ")))
    assert "-50.0 %" in one
    assert one.endswith("llama.cpp ahead")
    assert "x 20" in two
    assert two.endswith("vLLM ahead")


def test_without_repeats_there_is_a_dash_for_the_interval():
    rendered = text({1: (100.0,), 2: (100.0,)}, {1: (101.0,), 2: (99.0,)})
    assert "  -  tie" in rendered


def test_without_common_levels_there_is_no_table():
    rendered = text({1: (100.0,)}, {})
    assert "in flight" not in rendered
    assert "no valid level for vLLM" in " ".join(rendered.split())
    assert rendered.endswith("\n")
