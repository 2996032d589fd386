from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest

from edgesweep_collector.core.crossover import estimate
from edgesweep_collector.core.problem import Problem, Unit
from edgesweep_collector.core.words import words
from edgesweep_collector.report.facts import ContenderFacts, Finding, LevelRow, ReportFacts
from edgesweep_collector.report.html import THROUGHPUT, TTFT, render_html

CASES = Path(__file__).parents[1] / "fixtures" / "cases" / "compare.json"
PROBLEM = Problem(
    "output tok/s",
    True,
    (
        Unit(
            "d",
            {1: (40.0,), 2: (60.0,), 4: (80.0,), 8: None},
            {1: (20.0,), 2: (45.0,), 4: (90.0,), 8: (150.0,)},
        ),
    ),
    "llama.cpp",
    "vLLM",
)
ANSWER = estimate(PROBLEM)


def row(side, concurrency, rate, **changes):
    base = LevelRow(
        side,
        concurrency,
        "valid",
        None,
        64,
        0,
        ttft_s=0.1 * concurrency,
        tpot_s=0.02,
        e2e_s=2.5,
        output_tokens_per_s=rate,
        output_tokens_per_s_gross=rate,
        requests_per_s=rate / 128 if rate else None,
    )
    return replace(base, **changes)


def failed(side, concurrency, status="failed", reason="memory_floor"):
    return LevelRow(side, concurrency, status, reason, 0, 0)


FACTS = ReportFacts(
    title="A model on a box",
    generated_at=datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc),
    device_id="orin-017",
    labels={"site": "plant-3"},
    hardware_class="Jetson Orin Nano 8 GB",
    contenders=(
        ContenderFacts("A", "llama.cpp", "llama.cpp", "b1", "M", "Q4", True, {"slots": "8"}),
        ContenderFacts("B", "vLLM", "vLLM", "0.11", "M", "AWQ", False),
    ),
    workload="chat-512-128",
    levels=(
        row("A", 1, 40.0),
        row("A", 2, 60.0, n_ok=8, ttft_s=None),
        row("A", 4, 80.0),
        failed("A", 8),
        row("B", 1, 20.0),
        row("B", 2, 45.0),
        row("B", 4, 90.0),
        row("B", 8, 150.0),
    ),
    answers=(Finding(THROUGHPUT, ANSWER, words(PROBLEM, ANSWER)),),
    caveats=("p50 only",),
    reproduce=("edgesweep-agent sweep --levels 1,2,4,8",),
)


class Page(HTMLParser):
    """Collects the tags and attributes of a page, and fails on nothing."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def test_the_verdict_comes_before_the_charts_and_the_table():
    page = render_html(FACTS)
    places = [page.index(part) for part in (words(PROBLEM, ANSWER)[:60], "<figure>", "<table>")]
    assert places == sorted(places)


def test_the_page_needs_nothing_but_itself():
    page = Page(render_html(FACTS))
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name in ("src", "href", "xlink:href")]
    styles = "".join(page.text)
    assert "url(" not in styles
    assert "@import" not in styles


def test_names_from_devices_cannot_become_markup():
    evil = "<script>alert(1)</script>\x1b"
    facts = replace(
        FACTS,
        title=evil,
        labels={evil: evil},
        contenders=tuple(replace(c, name=evil, settings={evil: evil}) for c in FACTS.contenders),
        levels=(*FACTS.levels, failed("B", 16, reason=evil)),
        caveats=(evil,),
        reproduce=(evil,),
    )
    assert "script" not in Page(render_html(facts)).tags


def test_an_absent_figure_is_a_dash_with_its_reason_and_never_zero():
    page = render_html(FACTS)
    assert 'title="a median needs 11 successful requests">\N{EN DASH}<sup>a</sup>' in page
    assert 'title="level failed: memory_floor">\N{EN DASH}<sup>b</sup>' in page
    assert not re.search(r">0(\.0+)?</td>", page)


def test_what_was_left_out_is_told_with_its_reason():
    assert "<li>llama.cpp at 8: failed (memory_floor)</li>" in render_html(FACTS)


def test_both_metrics_are_drawn():
    page = Page(render_html(FACTS))
    assert page.tags.count("svg") == 2
    assert TTFT.title in "".join(page.text)


def test_a_level_with_too_many_failures_counts_them_apart_and_is_left_out():
    case = next(c for c in json.loads(CASES.read_text("utf-8")) if c["id"] == "CMP-01")
    records, expected = case["input"]["records"], case["expected"]
    level = row(
        "A",
        case["input"]["concurrency"],
        expected["throughput_tps_over_wall"],
        status="flagged",
        reason="errors",
        n_ok=records["ok"]["n"],
        n_failed=records["timeout"]["n"],
        ttft_s=None,
    )
    page = render_html(replace(FACTS, levels=(level,), answers=()))
    assert f"{expected['succeeded']} / {expected['failed']}" in page
    assert "<li>llama.cpp at 5: flagged (errors)</li>" in page
    assert 'class="es-hollow"' in page
    assert 'class="es-full"' not in page


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, levels=(), answers=(), contenders=(), caveats=(), reproduce=()),
        replace(FACTS, levels=(failed("A", 1), failed("B", 1))),
        replace(FACTS, levels=FACTS.levels[:1]),
    ],
    ids=["nothing", "only failures", "one level"],
)
def test_a_report_without_much_is_still_a_report(facts):
    assert render_html(facts).rstrip().endswith("</html>")
