from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesweep_collector.core.answer import Answer, Figures
from edgesweep_collector.core.interval import Interval
from edgesweep_collector.core.labels import Kind, Verdict
from edgesweep_collector.report.chart import Chart, Point
from edgesweep_collector.report.html import THROUGHPUT
from edgesweep_collector.report.svg import render_svg

SVG = "{http://www.w3.org/2000/svg}"
STATUSES = ["valid", "flagged", "queued", "skipped", "failed"]
POINTS = st.dictionaries(
    st.integers(1, 512),
    st.tuples(st.one_of(st.none(), st.floats(1e-6, 1e9)), st.sampled_from(STATUSES)),
    max_size=8,
).map(lambda cells: tuple(Point(c, v, s, "why") for c, (v, s) in sorted(cells.items())))


def points(*cells):
    return tuple(
        Point(2**k, value, "valid" if value else "failed", None) for k, value in enumerate(cells)
    )


def chart(a, b, **figures):
    answer = Answer(Verdict(Kind.CROSSOVER, "A"), Figures(**figures))
    return Chart(THROUGHPUT, {"A": "llama.cpp", "B": "vLLM"}, {"A": a, "B": b}, answer)


def drawn(given_chart):
    return ET.fromstring(render_svg(given_chart))


def of_class(root, kind):
    return [e for e in root.iter() if kind in (e.get("class") or "").split()]


def test_it_is_told_in_words_for_those_who_do_not_see_it():
    root = drawn(chart(points(10, None), points(5, 20)))
    assert root.find(f"{SVG}title").text == "Output throughput"
    description = root.find(f"{SVG}desc").text
    assert "llama.cpp: 10 at 1, failed at 2." in description
    assert "vLLM: 5 at 1, 20 at 2." in description


def test_a_failed_level_breaks_the_line_and_is_crossed():
    root = drawn(chart(points(10, 20, None, 30), points(5, 10, 20, 40)))
    assert len(of_class(root, "es-line")) == 1 + 3
    assert len([e for e in of_class(root, "es-sign") if e.find(f"{SVG}title") is not None]) == 1


def test_levels_that_do_not_count_are_hollow_and_dotted():
    queued = (*points(10, 20), Point(4, 21.0, "queued", "slot_limit"))
    root = drawn(chart(queued, points(5, 10, 20)))
    assert len(of_class(root, "es-dotted")) == 1
    assert [e.find(f"{SVG}title").text for e in of_class(root, "es-hollow") if len(e)] == [
        "21 at 4 (slot_limit)"
    ]


def test_the_drawn_lines_meet_at_the_crossover():
    # 10 to 40 against 20 to 20: equal at the geometric middle of the levels.
    root = drawn(chart(points(10, 40), points(20, 20), crossover=2**0.5, tie_band=(1.3, 1.5)))
    (mark,) = of_class(root, "es-cross")
    a, b = of_class(root, "es-line")
    assert float(mark.get("x1")) == pytest.approx(
        (float(a.get("x1")) + float(a.get("x2"))) / 2, abs=0.1
    )
    assert float(b.get("y1")) == pytest.approx(
        (float(a.get("y1")) + float(a.get("y2"))) / 2, abs=0.1
    )
    assert len(of_class(root, "es-band")) == 2  # in the plot and in the key


def test_an_open_end_of_the_interval_has_no_tick():
    closed = chart(points(10, 40), points(20, 20), ci95=Interval(1.2, 1.6))
    opened = chart(points(10, 40), points(20, 20), ci95=Interval(1.0, 1.6, ("low",)))
    assert len(of_class(drawn(closed), "es-ci")) == len(of_class(drawn(opened), "es-ci")) + 1


def test_names_that_end_close_together_are_kept_apart():
    root = drawn(chart(points(10, 20), points(9, 20.1)))
    y = sorted(float(e.get("y")) for e in of_class(root, "es-name"))
    assert y[1] - y[0] >= 16


def test_it_is_well_formed_whatever_the_names():
    evil = replace(chart(points(1, 2), points(2, 1)), names={"A": "<a>&\x00\x1b", "B": '"' * 90})
    assert drawn(evil) is not None


@settings(max_examples=60, deadline=None)
@given(POINTS, POINTS)
def test_any_points_can_be_drawn(a, b):
    root = drawn(chart(a, b))
    for element in root.iter():
        assert all("nan" not in value and "inf" not in value for value in element.attrib.values())
