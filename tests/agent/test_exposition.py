"""Prometheus text as engines really serve it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesweep_agent.core.exposition import QUOTED, parse
from engine_fixtures import cases

CASES = cases("metrics_scrape")


def one(line):
    (series,) = parse(line).series
    return series.name, dict(series.labels), series.value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a 1", ("a", {}, 1.0)),
        ("a\t1", ("a", {}, 1.0)),
        ("  a 1 \r", ("a", {}, 1.0)),
        ("llamacpp:x_total 8.168e+00", ("llamacpp:x_total", {}, 8.168)),
        ("a 1 1395066363000", ("a", {}, 1.0)),
        ("a 1 -5", ("a", {}, 1.0)),
        ('a_bucket{le="1"} 17 # {trace="x y"} 0.9 1.5', ("a_bucket", {"le": "1"}, 17.0)),
        ("a{} .5", ("a", {}, 0.5)),
        ('a{b="c"}1', ("a", {"b": "c"}, 1.0)),
        ("a 1 1.7e9", ("a", {}, 1.0)),
        ('a {b="c"} 1', ("a", {"b": "c"}, 1.0)),
        ('a{b="c",} -1.', ("a", {"b": "c"}, -1.0)),
        ('a{ b = "c" , d="" } 1', ("a", {"b": "c", "d": ""}, 1.0)),
        ('a{m="x} 5 # y,z=\\"q\\""} 1', ("a", {"m": 'x} 5 # y,z="q"'}, 1.0)),
        ('a{m="C:\\\\n\\n"} 1', ("a", {"m": "C:\\n\n"}, 1.0)),
        ('a{m="\\q"} 1', ("a", {"m": "q"}, 1.0)),
        ('a{m="\x85\u2028 漢"} 1', ("a", {"m": "\x85\u2028 漢"}, 1.0)),
        ('a{le="+Inf"} 7', ("a", {"le": "+Inf"}, 7.0)),
    ],
)
def test_a_sample_line_is_read(line, expected):
    assert one(line) == expected
    assert parse(line).bad_samples == 0


@pytest.mark.parametrize("value", ["NaN", "-nan", "+Inf", "-Inf", "inf", "nan", "1e999"])
def test_met_02_what_is_no_finite_number_is_null_and_counted(value):
    read = parse(f"a {value}\nb 1\n")
    assert [series.value for series in read.series] == [None, 1.0]
    assert (read.bad_samples, read.error) == (1, "")
    assert (read.total(["a"]), read.total(["b"])) == (None, 1.0)


def test_met_02_as_it_was_reported():
    case = CASES["MET-02"]
    read, expected = parse(case["input"]["text"]), case["expected"]
    for name in ("n_decode_total", "n_busy_slots_per_decode", "requests_processing"):
        assert read.total([f"llamacpp:{name}"]) == expected[name]
    assert read.total(["llamacpp:prompt_seconds_total"]) == expected["prompt_seconds_total"]
    (bucket,) = read.named(["x_bucket"])
    assert (bucket.labels["le"], bucket.value) == ("+Inf", expected["x_bucket_le_inf"])
    assert (read.bad_samples, not read.error) == (expected["bad_samples"], expected["scrape_ok"])


@pytest.mark.parametrize(
    "line",
    ["a", "a{", 'a{b="c} 1', 'a{b="c" d="e"} 1', "a{b=c} 1", "a one", "1a 1", "a 1_000", "a 0x1p3",
     "a 1 2 3", '{"quoted",b="c"} 1', "a{b} 1", "=1", "a{}", "<html>", '"a 1'],
)  # fmt: skip
def test_met_02_one_bad_line_costs_that_line_alone(line):
    read = parse(f"x 1\n{line}\ny 2\n")
    assert [series.name for series in read.series] == ["x", "y"]
    assert read.bad_samples == 1


@pytest.mark.parametrize(
    "text",
    ["", "OK", "\n\n", "# TYPE a counter\n", "<html></html>", '{"error":1}', "null", '""', '"OK"'],
)
def test_met_03_no_sample_at_all_is_an_error(text):
    read = parse(text)
    assert read.error
    assert read.total(["llamacpp:requests_deferred"]) is None


@pytest.mark.parametrize("variant", sorted(CASES["MET-03"]["input"]["variants"]))
def test_met_03_as_it_was_reported(variant):
    given, expected = CASES["MET-03"]["input"]["variants"][variant], CASES["MET-03"]["expected"]
    read = parse(given["text"] if isinstance(given, dict) else given)
    assert (not read.error) == expected[variant].get("scrape_ok", True)
    for name in ("prompt_tokens_total", "requests_deferred"):
        if name in expected[variant]:
            assert read.total([f"llamacpp:{name}"]) == expected[variant][name]
    assert read.warnings == tuple(filter(None, [expected[variant].get("warning")]))


def test_met_03_a_quoted_body_reads_as_it_would_unquoted():
    text = 'a{m="x\\"y\\n"} 1\nb NaN\n'
    plain, quoted = parse(text), parse(f"\ufeff \n{json.dumps(text)}\n")
    assert (quoted.series, quoted.bad_samples) == (plain.series, plain.bad_samples)
    assert (plain.warnings, quoted.warnings) == ((), (QUOTED,))


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("new 1\nold 2\n", 1.0),
        ("old 2\nnew 1\n", 1.0),
        ("old 2\n", 2.0),
        ("other 2\n", None),
        ("new NaN\nold 2\n", None),
        ('new{e="0"} 1\nnew{e="1"} 2\n', 3.0),
        # A part is not the whole.
        ('new{e="0"} 1\nnew{e="1"} NaN\n', None),
        # The same series twice is one series: the last line stands.
        ('new{e="0",f="1"} 1\nnew{f="1",e="0"} 5\n', 5.0),
        ("newer 1\nnew_total 1\n", None),
    ],
)
def test_met_01_the_newest_alias_that_is_there_counts_over_all_labels(text, total):
    assert parse(text).total(["new", "old"]) == total


NAME = st.from_regex(r"[a-z_:][a-z0-9_:]{0,8}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True), st.text(max_size=8)
)


@given(
    st.lists(st.tuples(NAME, LABELS, st.floats(allow_nan=False, allow_infinity=False)), max_size=6)
)
@settings(max_examples=25, deadline=None)
def test_what_was_written_is_read(written):
    def escaped(text):
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    lines = [
        f"{name}{{{','.join(f'{k}={chr(34)}{escaped(v)}{chr(34)}' for k, v in labels.items())}}} "
        f"{value!r}"
        for name, labels, value in written
    ]
    read = parse("\n".join(lines))
    wanted = {(name, tuple(sorted(labels.items()))): value for name, labels, value in written}
    got = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in read.series}
    assert got == wanted
    assert read.bad_samples == 0


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_no_text_is_too_strange(text):
    read = parse(text)
    assert bool(read.error) == (not read.series)
