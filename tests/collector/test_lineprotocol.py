from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesweep_collector.core.lineprotocol import Line, Point, line, plain
from edgesweep_collector.projection.influx import InfluxWriter, Target
from influx import running_influx
from influx_rewrite import rewriting

CASES = json.loads(
    (Path(__file__).parent.parent / "fixtures/cases/influx.json").read_text(encoding="utf-8")
)
T = 1767225600000000000


def case(name):
    return next(found for found in CASES if found["id"] == name)


@pytest.fixture(scope="module")
def influx(tmp_path_factory):
    with running_influx(tmp_path_factory.mktemp("influx")) as server:
        yield server


@pytest.fixture(scope="module")
def write(influx):
    with rewriting(influx.url) as rewrite:
        writer = InfluxWriter(Target(rewrite.url, "o", influx.database))
        yield writer.write
        writer.close()


def inf01_points():
    variants = case("INF-01")["input"]["variants"]
    special = {"NaN": float("nan"), "+Inf": float("inf")}
    for name, given_ in variants.items():
        fields = {key: special.get(value, value) for key, value in given_["fields"].items()}
        yield name, Point(given_["measurement"], given_["tags"], fields, given_["time_ns"])


def test_non_finite_fields_and_points_left_without_fields_are_dropped_and_counted():
    expected = case("INF-01")["expected"]
    points = dict(inf01_points())
    lines = {name: line(point) for name, point in points.items()}
    assert lines == {"a": Line(expected["a"]["line"], dropped_fields=2), "b": None}
    dropped = lines["a"].dropped_fields + len(points["b"].fields)
    assert dropped == expected["dropped_fields_total"]


def inf02_lines():
    given_ = case("INF-02")["input"]
    for name, model in given_["tags"].items():
        yield name, line(Point("bench", {"model": model}, given_["fields"], given_["time_ns"])).text


def test_hostile_tag_values_have_one_spelling():
    assert dict(inf02_lines()) == case("INF-02")["expected"]["lines"]


def test_hostile_tag_values_make_their_points_and_no_other(influx, write):
    expected = case("INF-02")["expected"]
    lines = [text for _, text in inf02_lines()]
    for _ in range(2):
        write(lines)
        rows = influx.rows('SELECT * FROM "bench"')
        assert len(rows) == expected["points_in_db"]
        injected = [row for row in rows if row["tokens"] == 999]
        assert len(injected) == expected["points_with_tokens_999"]


def test_a_whole_float_is_written_as_a_float():
    expected = case("INF-03")["expected"]["field_text"]
    values = [write["ttft_ms"] for write in case("INF-03")["input"]["writes"]]
    texts = [line(Point("m", {}, {"ttft_ms": float(v)}, 1)).text for v in values]
    assert texts == [f"m {text} 1" for text in expected]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9, "9i"),
        (-(2**63), "-9223372036854775808i"),
        (True, "true"),
        (False, "false"),
        (1e16, "1e+16"),
        (0.1, "0.1"),
        (-0.0, "-0"),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
        ("", '""'),
        ("\ud800", '"\N{REPLACEMENT CHARACTER}"'),
    ],
)
def test_the_python_type_decides_the_field_type(value, text):
    assert line(Point("m", {}, {"f": value}, 7)).text == f"m f={text} 7"


def test_an_integer_beyond_64_bits_is_dropped():
    assert line(Point("m", {}, {"f": 2**63, "g": 1}, 7)) == Line("m g=1i 7", dropped_fields=1)


def test_keys_and_measurements_are_escaped():
    point = Point("a b,c=d", {"k 1": "v", "": "x"}, {"f,=": 1.5}, 7)
    assert line(point).text == r"a\ b\,c=d,k\ 1=v f\,\==1.5 7"


def test_a_line_is_never_a_comment():
    assert line(Point("#m", {}, {"f": 1}, 7)).text == "/#m f=1i 7"


def test_a_point_needs_a_measurement():
    with pytest.raises(ValueError, match="measurement"):
        line(Point("", {}, {"f": 1}, 7))


def test_keys_with_one_normal_form_give_one_tag():
    tags = {"a\\b": "1", "a/b": "2"}
    swapped = dict(reversed(tags.items()))
    assert line(Point("m", tags, {"f": 1}, 7)).text.count("a/b=") == 1
    assert line(Point("m", tags, {"f": 1}, 7)) == line(Point("m", swapped, {"f": 1}, 7))


characters = st.characters(exclude_categories=["Cs"])
hostile = st.text(st.sampled_from(" ,=\\\"'\n\r\t\x00#éa\u2028") | characters, max_size=8)
ROUND = count()


@settings(max_examples=60, deadline=None)
@given(
    tags=st.dictionaries(hostile.map(lambda text: f"t{text}"), hostile, max_size=4),
    text=hostile,
    number=st.floats(allow_nan=False, allow_infinity=False),
    whole=st.integers(-(2**63), 2**63 - 1),
)
def test_what_is_written_is_what_is_read(influx, write, tags, text, number, whole):
    measurement = f"round{next(ROUND)}"
    fields = {"fs": text, "ff": number, "fi": whole}
    write([line(Point(measurement, tags, fields, T)).text])
    (series,) = influx.query(f'SELECT "fs", "ff", "fi" FROM "{measurement}" GROUP BY *')
    expected = {plain(k): plain(v) for k, v in sorted(tags.items()) if v}
    assert {k: v for k, v in series.get("tags", {}).items() if v} == expected
    ((time, found_text, found_number, found_whole),) = series["values"]
    assert (time, found_text, found_whole) == (T, text, whole)
    # 1.x prints a large float as digits without a point, which JSON reads as an integer.
    assert float(found_number) == number


def test_no_line_injects_a_measurement(influx, write):
    names = {row["name"] for row in influx.rows("SHOW MEASUREMENTS")}
    assert all(name == "bench" or name.startswith("round") for name in names)
